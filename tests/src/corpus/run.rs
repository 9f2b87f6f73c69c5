//! Runs the corpus against both servers.

use std::fmt;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::cases::{CorpusCase, CorpusGroup, CorpusRequest, patched};
use super::modules::Crd;
use crate::differential::{ApiClient, Difference, HttpAnswer, Normaliser, RequestStep, compare};

/// Polls until a CRD is served, and the interval between them.
const SERVED_TRIES: u32 = 1800;
const SERVED_PAUSE: Duration = Duration::from_millis(100);
const NAMESPACE: &str = "corpus";
/// Fields that depend on how fast, and by which writes, a CRD becomes established.
const PROGRESS: [&str; 2] = ["body.status.acceptedNames", "body.status.conditions"];
const WRITERS: [&str; 1] = ["body.metadata.managedFields"];
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Counts and problems of a run.
#[derive(Debug, Default)]
pub struct CorpusReport {
    /// CRDs that were created.
    pub definitions: usize,
    /// Cases, each counted once per version.
    pub cases: usize,
    pub requests: usize,
    /// Answers that differ, and cases that do not violate their rule.
    pub problems: Vec<String>,
}

impl fmt::Display for CorpusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        write!(f, "{} CRDs, {} cases, {} requests compared", self.definitions, self.cases, self.requests)
    }
}

impl CorpusReport {
    pub fn add(&mut self, other: CorpusReport) {
        self.definitions += other.definitions;
        self.cases += other.cases;
        self.requests += other.requests;
        self.problems.extend(other.problems);
    }
}

pub struct CorpusRun<'s> {
    ours: &'s ApiClient,
    real: &'s ApiClient,
    pub report: CorpusReport,
}

struct Responses {
    ours: HttpAnswer,
    real: HttpAnswer,
}

impl<'s> CorpusRun<'s> {
    /// Creates the namespace on both servers, which must not have the CRDs yet.
    pub fn new(ours: &'s ApiClient, real: &'s ApiClient) -> Result<Self, String> {
        let pair = CorpusRun { ours, real, report: CorpusReport::default() };
        let namespace =
            tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).to_json_bytes();
        for server in [pair.ours, pair.real] {
            server.send("POST", "/api/v1/namespaces", &RequestStep::default(), namespace.clone())?;
        }
        Ok(pair)
    }

    /// Runs the groups of a CRD. Groups with another storage version come last, each with the CRD created anew.
    pub fn run_groups(&mut self, crd: &Crd, groups: &[CorpusGroup]) -> Result<(), String> {
        let groups = groups.iter().filter(|group| group.kinds.iter().any(|kind| kind == crd.kind()));
        let (as_published, otherwise): (Vec<_>, Vec<_>) = groups.partition(|group| group.stored.is_empty());
        self.create_crd(crd)?;
        self.report.definitions += 1;
        for group in as_published {
            self.run_group(crd, group)?;
        }
        for group in otherwise {
            self.delete_crd(crd)?;
            self.create_crd(&crd.with_storage_version(&group.stored))?;
            self.run_group(crd, group)?;
        }
        Ok(())
    }

    /// Creates a CRD on both servers, compares the answers and waits until both serve it.
    fn create_crd(&mut self, crd: &Crd) -> Result<(), String> {
        let answers = self.send("POST", DEFINITIONS, &crd.tree, &crd.tree)?;
        self.compare(crd.name(), &answers, &PROGRESS);
        if answers.real.code != 201 {
            return Err(format!("{}: kube-apiserver rejects it", crd.name()));
        }
        let path = format!("{DEFINITIONS}/{}", crd.name());
        let ours = wait(self.ours, &path, is_established)?;
        let real = wait(self.real, &path, is_established)?;
        self.compare(&format!("{} once established", crd.name()), &Responses { ours, real }, &WRITERS);
        for version in crd.versions() {
            let path = crd.collection_path(version.str_at(&["name"]), NAMESPACE);
            for server in [self.ours, self.real] {
                wait(server, &path, |answer| answer.code == 200)?;
            }
        }
        Ok(())
    }

    /// Deletes a CRD on both servers, with all objects, and waits until it is gone.
    pub fn delete_crd(&self, crd: &Crd) -> Result<(), String> {
        let path = format!("{DEFINITIONS}/{}", crd.name());
        for server in [self.ours, self.real] {
            server.send("DELETE", &path, &RequestStep::default(), Vec::new())?;
            wait(server, &path, |answer| answer.code == 404)?;
        }
        Ok(())
    }

    /// Sends the valid object and all cases of a kind.
    fn run_group(&mut self, crd: &Crd, group: &CorpusGroup) -> Result<(), String> {
        for version in &group.versions {
            let named = format!("{} {version}: the valid object", crd.kind());
            let objects = crd.collection_path(version, NAMESPACE);
            let object = object(crd, version, "valid", &group.base);
            let answers = self.send_and_compare(&named, "POST", &objects, &object, &object)?;
            if answers.real.code != 201 {
                let message = answers.real.body.str_at(&["message"]);
                self.report.problems.push(format!("{named} is rejected by kube-apiserver: {message}"));
            }
        }
        for (number, case) in group.cases.iter().enumerate() {
            for version in group.versions_of(case) {
                let name = format!("case-{number}");
                self.run_case(crd, version, case, &object(crd, version, &name, &group.base))?;
            }
        }
        Ok(())
    }

    fn run_case(&mut self, crd: &Crd, version: &str, case: &CorpusCase, base: &Tree) -> Result<(), String> {
        self.report.cases += 1;
        let named = format!("{} {version} at {:?}: {}{}", crd.kind(), case.at, case.breaks, case.says);
        let mut requests = case.requests.clone();
        if requests.first().is_none_or(|request| request.create.is_none()) {
            requests.insert(0, CorpusRequest { create: Some(Tree::empty_map()), ..CorpusRequest::default() });
        }
        let objects = crd.collection_path(version, NAMESPACE);
        let (mut ours, mut real) = (base.clone(), base.clone());
        let last = requests.len() - 1;
        for (i, request) in requests.iter().enumerate() {
            let (patch, method, below) = request.parts()?;
            (ours, real) = (patched(&ours, patch), patched(&real, patch));
            let name = real.str_at(&["metadata", "name"]);
            let path = if method == "POST" { objects.clone() } else { format!("{objects}/{name}{below}") };
            let answers = self.send_and_compare(&named, method, &path, &ours, &real)?;
            let problem =
                if i == last { case_problem(case, &answers.real) } else { accepted(&answers.real).err() };
            if let Some(problem) = problem {
                self.report.problems.push(format!("{named}\n    request {}: {problem}", i + 1));
                return Ok(());
            }
            (ours, real) = (answers.ours.body, answers.real.body);
        }
        Ok(())
    }

    fn send_and_compare(
        &mut self,
        named: &str,
        method: &str,
        path: &str,
        ours: &Tree,
        real: &Tree,
    ) -> Result<Responses, String> {
        let answers = self.send(method, path, ours, real)?;
        self.compare(named, &answers, &[]);
        Ok(answers)
    }

    /// Sends one request to both servers, each with its own body.
    fn send(&self, method: &str, path: &str, ours: &Tree, real: &Tree) -> Result<Responses, String> {
        let send = |server: &ApiClient, body: &Tree| {
            server.send(method, path, &RequestStep::default(), body.to_json_bytes())
        };
        Ok(Responses { ours: send(self.ours, ours)?, real: send(self.real, real)? })
    }

    fn compare(&mut self, named: &str, answers: &Responses, ignored: &[&str]) {
        self.report.requests += 1;
        let normal = |answer: &HttpAnswer| Normaliser::new(NAMESPACE).answer(answer);
        let found = compare(&normal(&answers.ours), &normal(&answers.real));
        let counts = |d: &&Difference| !ignored.iter().any(|path| d.path.starts_with(path));
        let found = found.iter().filter(counts);
        self.report.problems.extend(found.map(|d| format!("{named}\n    {d}")));
    }
}

fn object(crd: &Crd, version: &str, name: &str, base: &Tree) -> Tree {
    let group_version = format!("{}/{version}", crd.group());
    let head = tree!({"apiVersion": group_version, "kind": crd.kind(),
        "metadata": {"name": format!("{name}-{version}")}});
    head.merge(base)
}

fn is_established(answer: &HttpAnswer) -> bool {
    let conditions = answer.body.items_at(&["status", "conditions"]);
    let is = |c: &Tree| c.str_at(&["type"]) == "Established" && c.str_at(&["status"]) == "True";
    conditions.iter().any(is)
}

fn wait(server: &ApiClient, path: &str, ready: impl Fn(&HttpAnswer) -> bool) -> Result<HttpAnswer, String> {
    for _ in 0..SERVED_TRIES {
        let answer = server.get(path)?;
        if ready(&answer) {
            return Ok(answer);
        }
        std::thread::sleep(SERVED_PAUSE);
    }
    Err(format!("{}{path} did not reach the expected state", server.base()))
}

fn accepted(answer: &HttpAnswer) -> Result<(), String> {
    if answer.code < 300 {
        return Ok(());
    }
    Err(format!("kube-apiserver rejects it: {}", answer.body.str_at(&["message"])))
}

/// Checks a case by kube-apiserver's answer to its last request.
fn case_problem(case: &CorpusCase, answer: &HttpAnswer) -> Option<String> {
    if case.accepted {
        return accepted(answer).err();
    }
    if answer.code != 422 {
        return Some(format!(
            "it is not rejected as invalid: {} {}",
            answer.code,
            answer.body.str_at(&["message"])
        ));
    }
    let causes = answer.body.items_at(&["details", "causes"]);
    let is_expected = |cause: &Tree| {
        place_of(cause.str_at(&["field"])) == case.at && cause.str_at(&["message"]).contains(&case.breaks)
    };
    if !causes.iter().any(is_expected) {
        return Some(format!("another rule is reported: {}", answer.body.str_at(&["message"])));
    }
    let alone = causes.len() == 1;
    if !case.breaks.is_empty() && alone != case.with_others.is_empty() {
        let all = answer.body.str_at(&["message"]);
        return Some(format!(
            "{} reported beside it: {all}",
            if alone { "nothing is" } else { "other causes are" }
        ));
    }
    None
}

/// Removes the indexes from a field path; `<nil>` is the root object.
fn place_of(field: &str) -> String {
    if field == "<nil>" {
        return String::new();
    }
    let mut inside = false;
    let kept = field.chars().filter(|c| {
        inside = match c {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        !inside || *c == '['
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_removed_from_field_paths() {
        assert_eq!(place_of("spec.jobs[12].steps[0]"), "spec.jobs[].steps[]");
        assert_eq!(place_of("<nil>"), "");
    }

    #[test]
    fn a_case_must_violate_its_rule_and_no_other() {
        let refused = |causes: Tree| HttpAnswer {
            code: 422,
            warnings: vec![],
            media: String::new(),
            body: tree!({"details": {"causes": causes}}),
        };
        let text = "{at: 'spec.list[]', breaks: too odd, do: []}";
        let case: CorpusCase = muster_tree::from_tree(&Tree::parse_yaml(text).unwrap()).unwrap();
        let meant = tree!({"field": "spec.list[3]", "message": "Invalid value: 3: too odd"});
        let other = tree!({"field": "spec.other", "message": "Required value"});
        assert_eq!(case_problem(&case, &refused(Tree::list([meant.clone()]))), None);
        assert!(case_problem(&case, &refused(Tree::list([other.clone()]))).is_some());
        assert!(case_problem(&case, &refused(Tree::list([meant, other]))).is_some());
        let fine = HttpAnswer { code: 201, ..refused(Tree::Null) };
        assert!(case_problem(&case, &fine).is_some());
    }
}
