"""HTTP server parts shared by collector and API.

- `run.py`: listen, TLS, uvicorn, health, logging
- `auth.py`, `jwt_auth.py`: scopes, API keys, rate limits, JWTs
- `http_limits.py`: header size and slow clients
- `origin_check.py`: requests of web pages of other sites
- `fast_path.py`: small requests without ASGI
- `metrics.py`: metrics of responses, routes for metrics and readiness
- `monitoring.py`: health, readiness and metrics of processes without another port
"""
