"""Consumers over SASL and TLS while their password is changed: connections stay, new ones need the new password."""

import ssl

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaConnectionError


@pytest.mark.asyncio
@pytest.mark.kafka(topics={"orders": 6}, security_protocol="SASL_SSL", users={"alice": "secret"})
async def test_a_rotated_password_holds_for_new_connections(kafka):
    settings = {
        "bootstrap_servers": kafka.bootstrap,
        "group_id": "billing",
        "heartbeat_interval_ms": 300,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=kafka.security.ca_file),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
    }
    async with AIOKafkaConsumer("orders", sasl_plain_password="secret", **settings) as consumer:
        await kafka.group("billing").reading(members=1)
        kafka.security.users["alice"] = "rotated"

        refused = kafka.journal.next("SaslAuthenticate", answered=True, error="SASL_AUTHENTICATION_FAILED")
        late = AIOKafkaConsumer("orders", sasl_plain_password="secret", **settings)
        with pytest.raises(KafkaConnectionError):
            await late.start()
        await late.stop()
        await refused

        async with AIOKafkaConsumer("orders", sasl_plain_password="rotated", **settings):
            await kafka.group("billing").stable(members=2)
            assert len(consumer.assignment()) == 3
