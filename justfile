# What a change is checked with. `just --list` shows this.

# formatting, lints, the formats without the engine, documentation
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo check --no-default-features
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# every test
test *ARGS:
    cargo test --workspace {{ARGS}}

# the SQL tests; ARGS filter them by file name
sql *ARGS:
    cargo test --workspace --test sql -- {{ARGS}}

# write what the SQL tests give today into their files; read the diff before you keep it
bless *ARGS:
    cargo test --workspace --test sql -- --complete {{ARGS}}

# one benchmark by name: `just bench tpch --scale 1 --runs 5`
bench NAME *ARGS:
    cargo bench --bench {{NAME}} -- {{ARGS}}

# Fermion beside Parquet, Vortex and tables in memory; needs libclang
peers *ARGS:
    cargo run --release --manifest-path benches/peers/Cargo.toml -- {{ARGS}}

# TPC-H as Parquet and as Fermion, side by side
demo *ARGS:
    cargo run --release -p fermion-cli -- demo {{ARGS}}

# the documentation, in a browser
doc:
    cargo doc --workspace --no-deps --open
