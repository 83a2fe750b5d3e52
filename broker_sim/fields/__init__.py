"""What a value may be: fields with their kinds, read under one rule wherever a value comes from, and all errors reported together."""
