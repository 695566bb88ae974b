"""One line a target of libFuzzer's logs. usage: results.py LOGS_DIRECTORY"""

import pathlib
import re
import sys

print(f"{'target':14}{'executions':>12}{'edges':>8}{'features':>10}{'inputs':>8}{'peak MB':>9}  status")
for log in sorted(pathlib.Path(sys.argv[1]).glob("*.txt")):
    text = log.read_text(errors="replace")
    progress = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/", text)
    edges, features, inputs = progress[-1] if progress else ("-", "-", "-")
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", text))
    status = re.findall(r": status (\d+)$", text, re.M)[-1]
    executions = f"{int(stats['number_of_executed_units']):,}"
    print(f"{log.stem:14}{executions:>12}{edges:>8}{features:>10}{inputs:>8}{stats['peak_rss_mb']:>9}  {status}")
