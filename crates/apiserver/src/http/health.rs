//! `/healthz`, `/livez`, `/readyz` and `/version`.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use muster_tree::{Tree, tree};

use super::answer::{self, Reply};
use super::query::Query;

/// The version of the API that is served.
pub const KUBERNETES_VERSION: &str = "1.37.1";

/// The answer of `/version`.
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

/// The machine in the words Kubernetes uses.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// One thing that must be ready; whoever waits for it keeps the other end.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name in `/readyz/<name>` and `/livez/<name>`.
    pub name: &'static str,
    state: Arc<AtomicU8>,
}

/// On its way: alive, not ready.
const PENDING: u8 = 0;
/// Ready.
const PASSED: u8 = 1;
/// Broken for good: neither ready nor alive.
const FAILED: u8 = 2;

impl Check {
    /// A check that does not hold yet.
    #[must_use]
    pub fn pending(name: &'static str) -> Self {
        Self { name, state: Arc::new(AtomicU8::new(PENDING)) }
    }

    /// A check that always holds.
    #[must_use]
    pub fn passed(name: &'static str) -> Self {
        let check = Self::pending(name);
        check.pass();
        check
    }

    /// From now on it holds, unless it is broken.
    pub fn pass(&self) {
        let _ = self.state.compare_exchange(PENDING, PASSED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// It is broken and will not mend itself: whoever watches over the process should start it again.
    pub fn fail(&self) {
        self.state.store(FAILED, Ordering::Release);
    }

    /// What a probe asks: ready means done, alive means not broken.
    fn holds(&self, probe: &str) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if probe == "readyz" { state == PASSED } else { state != FAILED }
    }
}

/// The answer of `/<probe>` or, with `one`, of `/<probe>/<one>`. `None` when there is no such check.
#[must_use]
pub fn probe(probe: &str, one: Option<&str>, query: &Query, checks: &[Check]) -> Option<Reply> {
    if let Some(one) = one {
        let check = checks.iter().find(|c| c.name == one)?;
        return Some(if check.holds(probe) {
            answer::text(200, "ok")
        } else {
            let word = if probe == "readyz" { "ready" } else { "alive" };
            answer::text(500, format!("internal server error: not {word}\n"))
        });
    }
    let excluded = query.get("exclude");
    let counts = |c: &Check| c.holds(probe) || excluded == Some(c.name);
    let passed = checks.iter().all(counts);
    if passed && query.get("verbose").is_none() {
        return Some(answer::text(200, "ok"));
    }
    let mut text = String::new();
    for check in checks {
        let line = match (excluded == Some(check.name), check.holds(probe)) {
            (true, _) => format!("[+]{} excluded: ok", check.name),
            (false, true) => format!("[+]{} ok", check.name),
            (false, false) => format!("[-]{} failed: reason withheld", check.name),
        };
        writeln!(text, "{line}").expect("writing to a string never fails");
    }
    let word = if passed { "passed" } else { "failed" };
    writeln!(text, "{probe} check {word}").expect("writing to a string never fails");
    Some(answer::text(if passed { 200 } else { 500 }, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_all_checks_hold() {
        let caches = Check::pending("caches");
        let checks = [Check::passed("ping"), caches.clone()];
        let code =
            |one, query| probe("readyz", one, &Query::parse(query), &checks).map(|r| r.status().as_u16());
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
        let controllers = Check::pending("controllers");
        let checks = [Check::passed("ping"), controllers.clone()];
        let codes = |one| {
            ["livez", "healthz", "readyz"]
                .map(|name| probe(name, one, &Query::parse(""), &checks).map_or(404, |r| r.status().as_u16()))
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
