"""``python -m broker_sim`` is ``broker-sim``."""

from broker_sim.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
