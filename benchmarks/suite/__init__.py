"""Problems that the library was not written for, one file a task, and a runner: `python -m benchmarks.suite --help`."""
