"""One Spark query that hosts many: continuous SQL queries that are created, altered and dropped while it runs, by statements that are data.

```
  Control -> inbox/ -> judge -> log/ -> source --.
                                                  union -> shuffle -> work -> tables/, one commit a batch
                        each stream -> pack -----'
```

What stays true:

- **Statements.** A client puts a uniquely named file into the inbox (``files.py``, ``control.py``). The source of the Spark query, which
  runs beside the driver, parses, binds and plans it against the program as it stands (``judge.py``), and only then writes it to the log
  under the next number; a refused one is answered with its error. The log is never changed. A *program* (``program.py``) is the fold of
  the log up to a number, its version; the digests of the entries are a chain, so that version and digest name a program.
- **Which batch sees which statement** is in Spark's own offset log: the source's offset is the number (``source.py``). What batch b reads
  is written into the manifests of b and acts at b + 1. The source moves once more after each statement, so that there is a b + 1 without
  rows.
- **A batch is a pure function** of the manifests of b - 1 and its own rows, as for ``stream_join``. Packers read all manifests of b - 1,
  and tell every core what they saw: program, digest, stopped queries, course. A core that stands elsewhere refuses the batch.
- **Spreading** (``spread.py``). A query is spread by what its plan allows: ``rows`` (a selection: a row to any core), ``hash`` (an
  equality of plain columns spans its join; or such columns are what rows are grouped by, ``grouped.py``), ``broadcast`` (one stream is
  dealt out, the others are on all cores), or it lies whole on ``one`` core: aggregates of all rows together, top-k, order, windows that
  count rows. There is one shuffle: what would need a second is on one core. A core has one ``Running`` a spreading (``core.py``): what
  ``Processor`` has inside, with the watermark moved once after each batch. Queries that are spread alike share the stored streams; one
  copy of a stream travels a spreading. After its share of a batch a core is advanced to the largest time that any core got: so all move
  one watermark.
- **Warm starts** (``warm.py``). A query is given the past only where it then knows all that it would know had it been there since the
  first batch: where a join of the same spreading that is complete itself holds the rows. Else it begins with the rows that come, and says
  so. What decides is the same on all cores: clocks, and what has come of the streams in all (``came.py``), never what a core happens to
  store. A spreading that begins later counts the rows before it as rows that are gone, so who was late then is late for warm queries too.
- **Cores** are parts of the state: as many as ``most_cores``, for ever. A task of a start is one of them, or several, so that a start may
  have another number of tasks.
- **An error inside a query** stops that query: the core says so in its manifest and in what it emits, no core's rows of that query and
  batch are committed, and at b + 1 all cores let go of it. ``start(skip=[number])`` stops what cannot be caught.
- **Results** (``tables.py``): tasks write a Parquet file a query; the driver writes one commit a batch, which lists the files that count.
  A batch that is evaluated again finds its commit there.
- **State** (``saving.py``): stored rows as immutable runs, as those of ``stream_join``; what queries remember is written whole. A
  manifest names all files, in one step. ``report.py`` lists and verifies them.
"""
