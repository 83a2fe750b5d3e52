"""One body of tests, two targets: the simulator and a real Apache Kafka, both generations of the coordinator."""
