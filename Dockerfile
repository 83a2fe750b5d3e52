# broker-sim in a container: docker build -t broker-sim . && docker run --rm -p 9092:9092 broker-sim --advertised-host localhost
FROM python:3.11-slim

WORKDIR /srv
COPY pyproject.toml PACKAGE.md LICENSE ./
COPY protocol protocol
COPY scenarios scenarios
COPY broker_sim broker_sim
RUN pip install --no-cache-dir '.[compression,control,demo,tls,uvloop]' \
    && useradd --create-home kafka \
    && install -d -o kafka /var/lib/broker-sim

USER kafka
VOLUME /var/lib/broker-sim
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 9092), 2).close()"]
ENTRYPOINT ["broker-sim", "serve", "--host", "0.0.0.0", "--port", "9092", "--data", "/var/lib/broker-sim"]
