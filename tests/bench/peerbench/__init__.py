"""What peers.py is made of: one module for each of its concerns.

workload.py  the reference workload: sizes, data, order of the rows
table.py     the table of peers, one entry each
trainers.py  the training loops the peers run in, one for each framework
child.py     the process a peer runs in, and the parent's end of it
driver.py    kan_driver as one more contestant
machine.py   what machine this is, and who else was using it
report.py    the Markdown table and the raw numbers
"""
