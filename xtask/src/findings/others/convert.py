#!/usr/bin/env python3
"""Converts data sets of others into CSV files that `cargo xtask findings --others` reads.

    convert.py dbsherlock dbsherlock_dataset_tpcc_16w.mat OUT     # needs scipy
    convert.py dbpa mysql_32_128.7z OUT                           # needs py7zr

Each data set becomes one file: comment lines with its source, its anomalies and the time between two rows, a line
with the names of the columns, and a row for each reading. The column `abnormal` is 1 in the region of the anomaly,
0 in the normal one, and empty in neither; other cells are empty if the value is unknown. Names of columns are those
of the source; only commas become semicolons.
"""

import datetime
import io
import os
import pickle
import sys

# Source's name of a compound anomaly whose parts are not separated by " + ".
PARTS = {"CPU,IO,Network Saturation": ["CPU Saturation", "I/O Saturation", "Network Saturation"]}

# Columns of DBPA's MySQL sets after the time, in order: groups and names of `metrics_mysql.csv`.
DBPA = """
total cpu usage: usr sys idl wai stl
dsk/total: read writ
net/total: recv send
paging: in out
memory usage: used free buff cach
system: int csw
procs: run blk new
load avg: 1m 5m 15m
swap: used free
interrupts: 343 344 416
io/total: read writ
async: #aio
filesystem: files inodes
sysv ipc: msg sem shm
file locks: pos lck rea wri
raw: raw
sockets: tot tcp udp raw frg
tcp sockets: lis act syn tim clo
udp: lis act
unix sockets: dgm str lis act
virtual memory: majpf minpf alloc free
advanced virtual memory: steal scanK scanD pgoru astll
zones memory: d32F d32H normF normH
mysql5 conn: Conn %Con Act
mysql5 locks: Locks
mysql5 settings: Innodb_buffer_pool_size innodb_buffer_pool_instances innodb_buffer_pool_chunk_size max_connections
mysql5 all: data free dirty flushed readr reads ratio size grow insert update delete comm roll
"""
DBPA_STEP_S = 5


def write(path, source, classes, step_s, names, rows, abnormal):
    """Writes a data set. A value of `abnormal` is 1, 0 or None; a cell of `rows` is a number or None."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"# source: {source}\n")
        file.writelines(f"# class: {one}\n" for one in classes)
        file.write(f"# step_s: {step_s}\n")
        file.write(",".join(["abnormal"] + [name.replace(",", ";") for name in names]) + "\n")
        for row, mark in zip(rows, abnormal):
            cells = ["" if mark is None else str(mark)] + ["" if cell is None else f"{cell:.10g}" for cell in row]
            file.write(",".join(cells) + "\n")


def slug(text):
    return "-".join("".join(one if one.isalnum() else " " for one in text.lower()).split())


def dbsherlock(path, out):
    import scipy.io

    data = scipy.io.loadmat(path)
    written = 0
    for kind, suffix, causes in (("test", "", "causes"), ("compound", "_compound", "compound_causes")):
        names_of_classes = [str(one[0]) for one in data[causes].ravel()]
        sets = data[f"{kind}_datasets"]
        for number, name in enumerate(names_of_classes):
            for column in range(sets.shape[1]):
                one = sets[number, column][0, 0]
                names = [str(name[0]) for name in one["field_names"].ravel()]
                # Positions are from 1. Without a normal region all other rows are normal.
                regions = [data[f"{region}_regions{suffix}"][number, column] for region in ("abnormal", "normal")]
                bad, good = ({int(at) - 1 for at in region.ravel()} for region in regions)
                marks = [1 if at in bad else 0 if at in good or not good else None for at in range(len(one["data"]))]
                rows = [unread(row, before, names) for row, before in pairs(one["data"])]
                classes = PARTS.get(name, name.split(" + "))
                target = os.path.join(out, f"dbsherlock-{slug(name)}-{column + 1:02}.csv")
                write(target, "dbsherlock", classes, 1, names, rows, marks)
                written += 1
    return written


def pairs(rows):
    """Yields each row with the one before."""
    before = None
    for row in rows:
        yield row, before
        before = row


def unread(row, before, names):
    """Returns the row without the server's counters if they could not be read.

    Where a reading failed, the source has -1 for levels, and differences to -1 in that row and in the next.
    """
    level = names.index("dbmsTotalPages")
    failed = row[level] == -1 or (before is not None and before[level] == -1)
    return [None if failed and name.startswith("dbms") else float(cell) for name, cell in zip(names, row)]


class Numbers(pickle.Unpickler):
    """Reads lists of numbers and times, and refuses everything else."""

    def find_class(self, module, name):
        if (module, name) == ("datetime", "datetime"):
            return datetime.datetime
        raise pickle.UnpicklingError(f"{module}.{name} is not expected")


def dbpa(path, out):
    import tempfile

    import py7zr

    groups = [line.split(": ") for line in DBPA.strip().splitlines()]
    names = [f"{group} {name}" for group, all_names in groups for name in all_names.split()]
    machine = os.path.basename(path).removesuffix(".7z").removeprefix("mysql_")
    written = 0
    with tempfile.TemporaryDirectory() as place:
        with py7zr.SevenZipFile(path) as archive:
            archive.extractall(place)
        for file in sorted(os.listdir(place)):
            with open(os.path.join(place, file), "rb") as opened:
                sets = Numbers(io.BytesIO(opened.read())).load()
            name = file.removesuffix("_data.pickle").replace("_", " ")
            for number, one in enumerate(sets):
                # The others have no normal part.
                if not isinstance(one[1], list):
                    continue
                # First reading of the anomaly, and the one after its last; without the latter it is the last one.
                first, end = (one[1] + [len(one[0])])[:2]
                # The first reading has means since the start of the system.
                rows = [row[1:] for row in one[0][1:]]
                marks = [1 if first <= at + 1 < end else 0 for at in range(len(rows))]
                target = os.path.join(out, f"dbpa-{machine}-{slug(name)}-{number + 1:03}.csv")
                write(target, "dbpa", [name], DBPA_STEP_S, names, rows, marks)
                written += 1
    return written


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("dbsherlock", "dbpa"):
        sys.exit(__doc__)
    source, path, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    written = {"dbsherlock": dbsherlock, "dbpa": dbpa}[source](path, out)
    print(f"{written} data sets of {path} in {out}")


if __name__ == "__main__":
    main()
