"""The Markdown tables and the raw numbers of a benchmark.

ns: wall time per sample and edge of the KAN, of the best and the median round; the MLP's is
divided by the KAN's edges too, so that rows compare directly. samples/s: of the median round.
"kokkan is faster by": rate of kokkan over that of the contestant in the same round, median over
rounds; in brackets by CPU instead of wall time, which other processes on the core disturb less
(one thread, and not for kan_driver, whose sandbox does not hand it on). Peak memory: largest
resident set; in brackets what came on top of the imported libraries and the data.
"""

from statistics import median


def measured(contestant):
    results = contestant.results
    return {
        "parameters": contestant.about["parameters"],
        "versions": contestant.about["versions"],
        "imported": contestant.about.get("imported"),
        "rates": [r["rows"] / r["wall"] for r in results],
        "cpu_rates": [r["rows"] / r["cpu"] for r in results],
        "peak": max(r["peak"] for r in results),
        "rounds": results,
    }


def ours(contestant):
    return {"name": f"kokkan ({contestant.name})", "setting": "", **measured(contestant)}


def peer(contestant, workload):
    first = contestant.about["loss"]
    return {
        "name": contestant.peer.title(workload),
        "peer": contestant.peer.name,
        "setting": contestant.setting,
        "first_loss": first,
        "learned": contestant.results[-1]["loss"] < first,
        **measured(contestant),
    }


def better(records):
    """The faster setting of each peer, by the median, in the order of the table."""
    best = {}
    for record in records:
        known = best.setdefault(record["peer"], record)
        if median(record["rates"]) > median(known["rates"]):
            best[record["peer"]] = record
    return list(best.values())


def digits(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def factor(table, record, rates="rates"):
    """How much faster kokkan is: median over rounds."""
    return median(a / b for a, b in zip(table["ours"][rates], record[rates]))


def row(record, table):
    ns = [1e9 / rate / table["edges"] for rate in record["rates"]]
    faster = ""
    if table["ours"] and record is not table["ours"]:
        faster = digits(factor(table, record))
        if table["threads"] == 1 and table["ours"]["imported"]:
            faster += f" ({digits(factor(table, record, 'cpu_rates'))})"
    peak = f"{record['peak']:,.0f}"
    if record["imported"]:
        peak += f" (+{max(0, record['peak'] - record['imported']):,.0f})"
    cells = [
        record["name"],
        f"{record['parameters']:,}",
        record["setting"],
        digits(min(ns)),
        digits(median(ns)),
        f"{median(record['rates']):,.0f}",
        faster,
        peak,
    ]
    return "| " + " | ".join(cells) + " |"


def section(table):
    threads = "one thread" if table["threads"] == 1 else f"{table['threads']} threads"
    shown = better(table["peers"])
    lines = [
        f"## {table['title']}, {threads}",
        "",
        f"{table['date']}, workload {table['workload']}, {table['rounds']} rounds on cores"
        f" {table['cores']}. Load averages {table['load_before']} before, {table['load_after']}"
        f" after; other processes used {table['other_cores']:.2f} cores while the rounds ran.",
        "",
        "| contestant | parameters | setting | ns, best | median | samples/s | kokkan is faster by"
        " | peak memory, MiB |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
        *(row(record, table) for record in ([table["ours"]] if table["ours"] else []) + shown),
        "",
    ]
    for record in shown:
        if not record["learned"]:
            lines.append(f"Beware: the loss of {record['name']} did not fall.")
    for name, reason in table["missing"].items():
        lines.append(f"Not timed: {name}: {reason}.")
    return lines


def summary(tables):
    """All workloads beside each other: kokkan's samples/s, and what it is faster by."""
    names = dict.fromkeys(p["peer"] for table in tables for p in table["peers"])
    lines = [
        "| | " + " | ".join(table["title"] for table in tables) + " |",
        "|---|" + "---:|" * len(tables),
        "| kokkan, samples/s | "
        + " | ".join(f"{median(table['ours']['rates']):,.0f}" for table in tables)
        + " |",
    ]
    for name in names:
        found = [[p for p in better(table["peers"]) if p["peer"] == name] for table in tables]
        cells = [digits(factor(t, f[0])) if f else "" for t, f in zip(tables, found)]
        lines.append(f"| faster than {name} by | " + " | ".join(cells) + " |")
    return lines


def markdown(result):
    machine, tables = result["machine"], result["tables"]
    lines = [
        "# Training: kokkan and its peers",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB,"
        f" {machine['system']}, Python {machine['python']}. float32, Adam, mean squared error;"
        " each contestant once in each round. A peer's row is the faster of its malloc settings.",
        "",
    ]
    for threads in dict.fromkeys(table["threads"] for table in tables):
        alike = [t for t in tables if t["threads"] == threads and t["ours"]]
        if alike:
            lines += [f"Threads: {threads}", "", *summary(alike), ""]
    for table in tables:
        lines += [*section(table), ""]
    lines += __doc__.strip().splitlines()[2:]
    records = [r for t in tables for r in [*filter(None, [t["ours"]]), *better(t["peers"])]]
    versions = dict.fromkeys(v for record in records for v in record["versions"])
    lines += ["", "Versions: " + "; ".join(versions) + "."]
    return "\n".join(lines) + "\n"
