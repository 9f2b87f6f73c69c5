//! `/healthz`, `/livez`, `/readyz` and `/version`.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use muster_tree::{Tree, tree};

use super::query::QueryParams;
use super::response::{self, HttpResponse};

/// The version of the served Kubernetes API.
pub const KUBERNETES_VERSION: &str = "1.37.1";

/// The response of `/version`.
#[must_use]
pub fn version() -> Tree {
    tree!({
        "major": "1",
        "minor": "37",
        "gitVersion": format!("v{KUBERNETES_VERSION}+muster"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

/// The architecture as Go names it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A named health check; clones share the state, so that a component can set it.
#[derive(Debug, Clone)]
pub struct HealthCheck {
    /// The name in `/readyz/<name>` and `/livez/<name>`.
    pub name: &'static str,
    state: Arc<AtomicU8>,
}

/// Starting: alive, not ready.
const PENDING: u8 = 0;
const PASSED: u8 = 1;
/// Failed permanently: neither ready nor alive.
const FAILED: u8 = 2;

impl HealthCheck {
    /// A check that passes once [`HealthCheck::pass`] is called.
    #[must_use]
    pub fn pending(name: &'static str) -> Self {
        Self { name, state: Arc::new(AtomicU8::new(PENDING)) }
    }

    /// A check that always passes.
    #[must_use]
    pub fn always_passing(name: &'static str) -> Self {
        let check = Self::pending(name);
        check.pass();
        check
    }

    /// Marks the check as passing, unless it has failed.
    pub fn pass(&self) {
        // A failed check never passes again: only a restart clears it.
        let _ = self.state.compare_exchange(PENDING, PASSED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Marks the check as failed for good: `/livez` fails, so that a supervisor restarts the process.
    pub fn fail(&self) {
        self.state.store(FAILED, Ordering::Release);
    }

    /// `/readyz` requires a passed check, `/livez` and `/healthz` one that has not failed.
    fn passes(&self, probe: &str) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if probe == "readyz" { state == PASSED } else { state != FAILED }
    }
}

/// The response of `/<probe>` or, with `one`, of `/<probe>/<one>`. `None` when the check does not exist.
#[must_use]
pub fn probe(
    probe: &str,
    one: Option<&str>,
    query: &QueryParams,
    checks: &[HealthCheck],
) -> Option<HttpResponse> {
    if let Some(one) = one {
        let check = checks.iter().find(|c| c.name == one)?;
        return Some(if check.passes(probe) {
            response::text(200, "ok")
        } else {
            let word = if probe == "readyz" { "ready" } else { "alive" };
            response::text(500, format!("internal server error: not {word}\n"))
        });
    }
    let excluded = query.get("exclude");
    let counts = |c: &HealthCheck| c.passes(probe) || excluded == Some(c.name);
    let passed = checks.iter().all(counts);
    if passed && query.get("verbose").is_none() {
        return Some(response::text(200, "ok"));
    }
    let mut text = String::new();
    for check in checks {
        let line = match (excluded == Some(check.name), check.passes(probe)) {
            (true, _) => format!("[+]{} excluded: ok", check.name),
            (false, true) => format!("[+]{} ok", check.name),
            (false, false) => format!("[-]{} failed: reason withheld", check.name),
        };
        writeln!(text, "{line}").expect("writing to a string never fails");
    }
    let word = if passed { "passed" } else { "failed" };
    writeln!(text, "{probe} check {word}").expect("writing to a string never fails");
    Some(response::text(if passed { 200 } else { 500 }, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_all_checks_hold() {
        let caches = HealthCheck::pending("caches");
        let checks = [HealthCheck::always_passing("ping"), caches.clone()];
        let code = |one, query| {
            probe("readyz", one, &QueryParams::parse(query), &checks).map(|r| r.status().as_u16())
        };
        assert_eq!(code(None, ""), Some(500));
        assert_eq!(code(Some("caches"), ""), Some(500));
        assert_eq!(code(Some("ping"), ""), Some(200));
        assert_eq!(code(None, "exclude=caches"), Some(200));
        assert_eq!(code(Some("nosuch"), ""), None);
        caches.pass();
        assert_eq!(code(None, "verbose"), Some(200));
    }

    #[test]
    fn alive_until_something_breaks() {
        let controllers = HealthCheck::pending("controllers");
        let checks = [HealthCheck::always_passing("ping"), controllers.clone()];
        let codes = |one| {
            ["livez", "healthz", "readyz"].map(|name| {
                probe(name, one, &QueryParams::parse(""), &checks).map_or(404, |r| r.status().as_u16())
            })
        };
        assert_eq!(codes(None), [200, 200, 500], "starting");
        controllers.pass();
        assert_eq!(codes(None), [200, 200, 200], "at work");
        controllers.fail();
        controllers.pass();
        assert_eq!(codes(None), [500, 500, 500], "crashed for good");
        assert_eq!(codes(Some("controllers")), [500, 500, 500]);
        assert_eq!(codes(Some("ping")), [200, 200, 200]);
    }
}
