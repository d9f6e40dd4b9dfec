"""`python -m benchmarks.learning [NAME...]`, see benchmarks/learning/runs.py."""

from benchmarks.learning.runs import main

if __name__ == "__main__":
    main()
