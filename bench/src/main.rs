//! Scenarios that print figures. Nothing is asserted: read them as ratios, release build.
//!
//! `cargo run --release -p muster-bench -- schema store jobs up`, or `cargo xtask bench`

#![allow(clippy::print_stdout, reason = "printing is all it does")]
#![allow(clippy::disallowed_methods, reason = "a bench measures the real clock")]

mod jobs;
mod measure;
mod schema;
mod store;
mod up;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [row, n] = &wanted[..]
        && row == "store-memory"
        && let Ok(n) = n.parse()
    {
        return store::memory_row(n);
    }
    let all = wanted.is_empty();
    let is_wanted = |name: &str| all || wanted.iter().any(|w| w == name);
    if is_wanted("schema") {
        schema::run();
    }
    if is_wanted("store") {
        store::run();
    }
    if is_wanted("jobs") {
        jobs::run();
    }
    if is_wanted("up") {
        up::run();
    }
}
