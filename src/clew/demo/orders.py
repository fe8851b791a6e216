import marimo

__generated_with = "0.17.0"
app = marimo.App(width="medium", app_title="Daily net revenue")


@app.cell(hide_code=True)
def title(mo):
    mo.md(
        """
        # Daily net revenue

        What did each region earn per day, once returns are paid back? Three files come in
        (orders, customers, returns) and one goes out: `daily_revenue.parquet`.
        """
    )
    return


@app.cell
def imports():
    import os
    import random
    import tempfile
    from datetime import date, timedelta
    from pathlib import Path

    import marimo as mo
    import pandas as pd

    return Path, date, mo, os, pd, random, tempfile, timedelta


@app.cell
def folder(Path, os, tempfile):
    data = Path(os.environ.get("CLEW_DEMO_DATA") or tempfile.mkdtemp(prefix="clew-demo-"))
    data.mkdir(parents=True, exist_ok=True)
    return (data,)


@app.cell
def make_files(data, date, random, timedelta):
    # The same files every time: the generator is seeded.
    dice = random.Random(20261115)
    regions = ["north", "south", "east", "west"]
    with (data / "customers.csv").open("w") as file:
        file.write("customer_id,name,region,segment\n")
        for number in range(1, 401):
            file.write(f"{number},Customer {number},{dice.choice(regions)},{dice.choice(['retail', 'business'])}\n")
    with (data / "orders.csv").open("w") as file:
        file.write("order_id,customer_id,order_date,price,qty,status,note\n")
        for number in range(1, 3001):
            day = date(2026, 1, 1) + timedelta(days=dice.randrange(90))
            price, qty = round(dice.uniform(3, 180), 2), dice.randint(1, 6)
            status = dice.choices(["paid", "open", "cancelled"], weights=[8, 1, 1])[0]
            file.write(f"{number},{dice.randint(1, 400)},{day},{price},{qty},{status},\n")
    with (data / "returns.csv").open("w") as file:
        file.write("return_id,order_id,refund,reason\n")
        for number, order in enumerate(sorted(dice.sample(range(1, 3001), 240)), start=1):
            file.write(f"{number},{order},{round(dice.uniform(1, 60), 2)},{dice.choice(['late', 'broken', 'size'])}\n")
    files_ready = True
    return (files_ready,)


@app.cell
def load_orders(data, files_ready, pd):
    assert files_ready
    orders = pd.read_csv(data / "orders.csv", parse_dates=["order_date"])
    orders = orders.drop(columns=["note"])
    orders.head()
    return (orders,)


@app.cell
def load_customers(data, files_ready, pd):
    assert files_ready
    customers = pd.read_csv(data / "customers.csv")
    returns = pd.read_csv(data / "returns.csv")
    return customers, returns


@app.cell
def keep_paid(orders):
    paid = orders[orders["status"] == "paid"]
    paid = paid.assign(gross=paid["price"] * paid["qty"])
    return (paid,)


@app.cell
def sum_returns(returns):
    refunds = returns.groupby("order_id").agg(refunded=("refund", "sum"), items=("return_id", "count")).reset_index()
    return (refunds,)


@app.cell
def net_orders(paid, pd, refunds):
    net = pd.merge(paid, refunds[["order_id", "refunded"]], on="order_id", how="left")
    net["refunded"] = net["refunded"].fillna(0)
    net["net_revenue"] = net["gross"] - net["refunded"]
    return (net,)


@app.cell
def by_customer(customers, net):
    joined = net.merge(customers[["customer_id", "region", "segment"]], on="customer_id")
    return (joined,)


@app.cell
def daily(joined):
    daily_revenue = (
        joined.groupby(["order_date", "region"])
        .agg(orders=("order_id", "count"), gross=("gross", "sum"), net_revenue=("net_revenue", "sum"))
        .reset_index()
        .sort_values(["order_date", "region"])
    )
    return (daily_revenue,)


@app.cell
def check_margin(daily_revenue):
    # There is no `cost` in any of the files: this cell fails on purpose; the others must still run.
    margin = daily_revenue["net_revenue"] - daily_revenue["cost"]
    margin.describe()
    return


@app.cell
def best_days(daily_revenue):
    best = daily_revenue.nlargest(5, "net_revenue")
    best
    return


@app.cell
def save(daily_revenue, data):
    daily_revenue.to_parquet(data / "daily_revenue.parquet", index=False)
    return


if __name__ == "__main__":
    app.run()
