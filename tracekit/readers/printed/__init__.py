"""Tables that programs print: lines, log prefixes, copies that people pasted."""
