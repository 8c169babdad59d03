"""What peers.py is made of: one module for each of its concerns.

workload.py  the table of workloads: sizes, data, order of the rows
table.py     the table of peers, one entry each
trainers.py  the training loops the peers run in, one for each framework
process.py   a contestant in a process of its own, as the parent sees it: kan_bench or a peer
child.py     the process a peer runs in
driver.py    kan_driver as one more contestant
machine.py   what machine this is, and who else was using it
report.py    the Markdown tables and the raw numbers
"""
