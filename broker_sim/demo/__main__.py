"""``python -m broker_sim.demo``."""

from broker_sim.demo import main

if __name__ == "__main__":
    raise SystemExit(main())
