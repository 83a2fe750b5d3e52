"""The differential tester: random requests to the simulator and to a real Apache Kafka in lockstep. docs/differential.md."""
