# broker-sim in a container: docker build -t broker-sim . && docker run --rm -p 9092:9092 broker-sim
# Variables are those of Kafka's images (docs/image.md); arguments are options of broker-sim serve.
FROM python:3.11-slim

WORKDIR /srv
COPY pyproject.toml PACKAGE.md LICENSE ./
COPY protocol protocol
COPY scenarios scenarios
COPY broker_sim broker_sim
RUN pip install --no-cache-dir '.[compression,control,demo,tls,uvloop]' \
    && useradd --create-home kafka \
    && install -d -o kafka /var/lib/broker-sim /etc/confluent/docker
COPY --chmod=755 image/run /etc/kafka/docker/run
COPY --chmod=755 --chown=kafka image/run /etc/confluent/docker/run
COPY --chmod=755 --chown=kafka image/run /etc/confluent/docker/launch
COPY --chmod=755 --chown=kafka image/configure image/bash-config /etc/confluent/docker/
COPY --chmod=755 image/kafka-storage /usr/local/bin/kafka-storage
COPY --chmod=755 image/entrypoint /usr/local/bin/broker-sim-entrypoint

USER kafka
WORKDIR /var/lib/broker-sim
VOLUME /var/lib/broker-sim
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s \
    CMD ["python", "-m", "broker_sim.cli.environment"]
ENTRYPOINT ["broker-sim-entrypoint"]
