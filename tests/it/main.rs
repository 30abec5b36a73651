//! The product as its users meet it: through its public doors, on real Postgres, beside the sandbox.
