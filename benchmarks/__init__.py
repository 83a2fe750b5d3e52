"""Benchmarks of the simulator's speed, as ratios to other brokers measured in the same run: ``python -m benchmarks``.

Rules:
1. Every system is started here, pinned to one core, and ended by its pid; the load generator runs on another core. Loopback only.
2. The systems of a row take turns (A B C A B C), and the median of the runs counts. A ratio is only made within one row.
3. Each run gets a fresh process, so that no system carries what an earlier run left behind. Only the JVM goes on, warm.
4. What is compared is requests per second on a core that the broker keeps busy; its CPU time per request is shown beside it
   and is the figure to trust where other work shares the machine.
"""
