"""Studies: many runs described in one directory, which any number of workers on any number of machines carry out.

    DIR/cells/study.json        the study's id, and the version of tfbaselines that made it
    DIR/cells/open/NAME         a cell that waits: a JSON document with the arguments of one run
    DIR/cells/running/NAME@W    a cell that worker W has claimed; the claim is an atomic rename of the file
    DIR/cells/done, failed      cells that ended
    DIR/cells/workers/W         a worker's heartbeat: W sets the file's time every few seconds
    DIR/runs/...                log directories of the runs, and their output.txt

`store.py` owns these files, `worker.py` runs cells in processes of their own, `cells.py` makes them from arguments.
"""
