"""Everything that goes wrong on purpose: requests on their way, and log partitions.

* ``conditions``: lasting states of a log partition - stuck, slow, full, without a leader, loading
* ``selectors``, ``rules``: which requests, how often, and what becomes of them, as data; ``registry``: the rules in force, their hits
* ``tap``: where requests and answers pass; it numbers and journals them, and does what the rules and the order say
* ``order``, ``recorded``: requests held back, let go one by one, or in the order of a record
* ``error_response``, ``partial_error``: the answer that says an error, wherever an API can say one; ``bodies``: for the journal
"""
