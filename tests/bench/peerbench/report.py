"""The Markdown table and the raw numbers of a benchmark.

samples/s: the best round, the median over rounds, and the median by CPU time instead of wall time,
which other processes on the core disturb less (kan_driver: of the whole process, start included).
ns: median time per sample and edge of the [2, 64, 1] KAN; the MLP's is divided by the KAN's edges
too, so that rows compare directly. kokkan / it: ratio of the medians. Peak memory: largest
resident set; in brackets what came on top of the imported libraries and the data.
"""

from statistics import median

from . import workload


def measured(results):
    return {
        "rates": [r["rows"] / r["wall"] for r in results],
        "cpu_rates": [r["rows"] / r["cpu"] for r in results],
        "peak": max(r["peak"] for r in results),
        "rounds": results,
    }


def ours(driver):
    return {
        "name": "kokkan (kan_driver)",
        "version": driver.version,
        "setting": "",
        "parameters": workload.PARAMETERS,
        **measured(driver.results),
    }


def contestant(child):
    note = f" ({child.peer.note})" if child.peer.note else ""
    return {
        "name": child.peer.name + note,
        "peer": child.peer.name,
        "versions": child.about["versions"],
        "setting": child.setting,
        "parameters": child.about["parameters"],
        "imported": child.about["imported"],
        "first_loss": child.about["loss"],
        "learned": child.results[-1]["loss"] < child.about["loss"],
        **measured(child.results),
    }


def better(records):
    """The faster setting of each peer, by the median, in the order of the table."""
    best = {}
    for record in records:
        known = best.setdefault(record["peer"], record)
        if median(record["rates"]) > median(known["rates"]):
            best[record["peer"]] = record
    return list(best.values())


def row(record, reference):
    typical = median(record["rates"])
    ns = 1e9 / typical / workload.EDGES
    ratio = f"{reference / typical:,.1f}" if reference else ""
    peak = f"{record['peak']:,.0f}"
    if "imported" in record:
        peak += f" (+{max(0, record['peak'] - record['imported']):,.0f})"
    cells = [
        record["name"],
        f"{record['parameters']:,}",
        record["setting"],
        f"{max(record['rates']):,.0f}",
        f"{typical:,.0f}",
        # The toolchain's sandbox does not hand on the CPU time of what ran inside.
        "" if not record["setting"] else f"{median(record['cpu_rates']):,.0f}",
        f"{ns:,.0f}" if ns >= 100 else f"{ns:.3g}",
        ratio,
        peak,
    ]
    return "| " + " | ".join(cells) + " |"


def markdown(result):
    machine, reference = result["machine"], None
    lines = [
        "# Training the reference workload: kan_driver and its peers on one core",
        "",
        f"{result['date']}. {machine['processor']}, {machine['cores']} cores,"
        f" {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}.",
        f"Load averages {result['load_before']} before, {result['load_after']} after; other"
        f" processes used {result['other_cores']:.2f} cores while the rounds ran.",
        f"Each contestant once in each of {result['rounds']} rounds, on core {result['core']}, with"
        " one thread, in float32.",
        "",
        "| contestant | parameters | setting | samples/s, best | median | by CPU time | ns |"
        " kokkan / it | peak memory, MiB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    if result["ours"]:
        reference = median(result["ours"]["rates"])
        lines.append(row(result["ours"], reference))
    shown = better(result["peers"])
    lines += [row(record, reference) for record in shown]
    lines += ["", *__doc__.strip().splitlines()[2:], ""]
    if result["ours"]:
        loss = result["ours"]["rounds"][-1]["loss"]
        lines.append(
            f"Ours: {result['ours']['version']}, {result['deck']}, {result['epochs']} epochs"
            f" a round, train_loss {loss:.3g} at their end."
        )
    lines.append("Peers: " + ("; ".join(versions(shown)) or "none") + ".")
    for record in shown:
        if not record["learned"]:
            lines.append(f"Beware: the loss of {record['name']} did not fall.")
    for name, reason in result["missing"].items():
        lines.append(f"Not timed: {name}: {reason}")
    return "\n".join(lines) + "\n"


def versions(records):
    """Each package once."""
    return list(dict.fromkeys(v for record in records for v in record["versions"]))
