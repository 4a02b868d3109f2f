"""What is wrong with a code base: rules, proofs, launches, contracts and graphs."""
