"""Tables that programs print: lines, log prefixes, pasted copies."""
