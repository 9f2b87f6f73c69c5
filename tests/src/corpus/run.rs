//! Plays the corpus on both servers.

use std::fmt;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::cases::{Case, Group, Request, patched};
use super::modules::Crd;
use crate::differential::{Answer, Difference, Normaliser, Server, Step, compare};

/// How often one looks whether a definition is served, and how long apart.
const SERVED_TRIES: u32 = 1800;
const SERVED_PAUSE: Duration = Duration::from_millis(100);
/// The namespace of all objects.
const NAMESPACE: &str = "corpus";
/// What a definition says of how soon, and by which writes, it became established.
const PROGRESS: [&str; 2] = ["body.status.acceptedNames", "body.status.conditions"];
const WRITERS: [&str; 1] = ["body.metadata.managedFields"];
/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What came out.
#[derive(Debug, Default)]
pub struct Report {
    /// Published definitions that were played.
    pub definitions: usize,
    /// Cases played, each counted once per version.
    pub cases: usize,
    /// Requests whose answers were compared.
    pub requests: usize,
    /// What is wrong: answers that differ, or a case that does not do what it says.
    pub problems: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        write!(f, "{} CRDs, {} cases, {} requests compared", self.definitions, self.cases, self.requests)
    }
}

impl Report {
    /// Adds what came out of other definitions.
    pub fn add(&mut self, other: Report) {
        self.definitions += other.definitions;
        self.cases += other.cases;
        self.requests += other.requests;
        self.problems.extend(other.problems);
    }
}

/// Our server and a real one, and what was found so far.
pub struct Pair<'s> {
    ours: &'s Server,
    real: &'s Server,
    /// What came out so far.
    pub report: Report,
}

/// What both servers answered to one request.
struct Both {
    ours: Answer,
    real: Answer,
}

impl<'s> Pair<'s> {
    /// Two servers without any of the definitions.
    pub fn new(ours: &'s Server, real: &'s Server) -> Result<Self, String> {
        let pair = Pair { ours, real, report: Report::default() };
        let namespace =
            tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).to_json_bytes();
        for server in [pair.ours, pair.real] {
            server.send("POST", "/api/v1/namespaces", &Step::default(), namespace.clone())?;
        }
        Ok(pair)
    }

    /// Plays the groups of a definition that store the same version.
    pub fn play_all(&mut self, crd: &Crd, groups: &[Group]) -> Result<(), String> {
        let groups = groups.iter().filter(|group| group.kinds.iter().any(|kind| kind == crd.kind()));
        let (as_published, otherwise): (Vec<_>, Vec<_>) = groups.partition(|group| group.stored.is_empty());
        self.define(crd)?;
        self.report.definitions += 1;
        for group in as_published {
            self.play(crd, group)?;
        }
        for group in otherwise {
            self.forget(crd)?;
            self.define(&crd.storing(&group.stored))?;
            self.play(crd, group)?;
        }
        Ok(())
    }

    /// Creates a definition on both, compares what they say and waits until both serve it.
    fn define(&mut self, crd: &Crd) -> Result<(), String> {
        let answers = self.send("POST", DEFINITIONS, &crd.tree, &crd.tree)?;
        self.compare(crd.name(), &answers, &PROGRESS);
        if answers.real.code != 201 {
            return Err(format!("{}: the real server refuses it", crd.name()));
        }
        let path = format!("{DEFINITIONS}/{}", crd.name());
        let ours = wait(self.ours, &path, is_established)?;
        let real = wait(self.real, &path, is_established)?;
        self.compare(&format!("{} once established", crd.name()), &Both { ours, real }, &WRITERS);
        for version in crd.versions() {
            let path = crd.objects(version.str_at(&["name"]), NAMESPACE);
            for server in [self.ours, self.real] {
                wait(server, &path, |answer| answer.code == 200)?;
            }
        }
        Ok(())
    }

    /// Deletes a definition on both, with all objects, and waits until it is gone.
    pub fn forget(&self, crd: &Crd) -> Result<(), String> {
        let path = format!("{DEFINITIONS}/{}", crd.name());
        for server in [self.ours, self.real] {
            server.send("DELETE", &path, &Step::default(), Vec::new())?;
            wait(server, &path, |answer| answer.code == 404)?;
        }
        Ok(())
    }

    /// Plays the valid object and all cases of a kind.
    fn play(&mut self, crd: &Crd, group: &Group) -> Result<(), String> {
        for version in &group.versions {
            let named = format!("{} {version}: the valid object", crd.kind());
            let objects = crd.objects(version, NAMESPACE);
            let object = object(crd, version, "valid", &group.base);
            let answers = self.ask(&named, "POST", &objects, &object, &object)?;
            if answers.real.code != 201 {
                let said = answers.real.body.str_at(&["message"]);
                self.report.problems.push(format!("{named} is refused by the real server: {said}"));
            }
        }
        for (number, case) in group.cases.iter().enumerate() {
            for version in group.versions_of(case) {
                let name = format!("case-{number}");
                self.play_case(crd, version, case, &object(crd, version, &name, &group.base))?;
            }
        }
        Ok(())
    }

    fn play_case(&mut self, crd: &Crd, version: &str, case: &Case, base: &Tree) -> Result<(), String> {
        self.report.cases += 1;
        let named = format!("{} {version} at {:?}: {}{}", crd.kind(), case.at, case.breaks, case.says);
        let mut requests = case.requests.clone();
        if requests.first().is_none_or(|request| request.create.is_none()) {
            requests.insert(0, Request { create: Some(Tree::empty_map()), ..Request::default() });
        }
        let objects = crd.objects(version, NAMESPACE);
        let (mut ours, mut real) = (base.clone(), base.clone());
        let last = requests.len() - 1;
        for (i, request) in requests.iter().enumerate() {
            let (patch, method, below) = request.parts()?;
            (ours, real) = (patched(&ours, patch), patched(&real, patch));
            let name = real.str_at(&["metadata", "name"]);
            let path = if method == "POST" { objects.clone() } else { format!("{objects}/{name}{below}") };
            let answers = self.ask(&named, method, &path, &ours, &real)?;
            let problem =
                if i == last { verdict(case, &answers.real) } else { accepted(&answers.real).err() };
            if let Some(problem) = problem {
                self.report.problems.push(format!("{named}\n    request {}: {problem}", i + 1));
                return Ok(());
            }
            (ours, real) = (answers.ours.body, answers.real.body);
        }
        Ok(())
    }

    /// Sends one request to both and compares the answers.
    fn ask(
        &mut self,
        named: &str,
        method: &str,
        path: &str,
        ours: &Tree,
        real: &Tree,
    ) -> Result<Both, String> {
        let answers = self.send(method, path, ours, real)?;
        self.compare(named, &answers, &[]);
        Ok(answers)
    }

    /// Sends one request to both, each with its own body.
    fn send(&self, method: &str, path: &str, ours: &Tree, real: &Tree) -> Result<Both, String> {
        let send =
            |server: &Server, body: &Tree| server.send(method, path, &Step::default(), body.to_json_bytes());
        Ok(Both { ours: send(self.ours, ours)?, real: send(self.real, real)? })
    }

    fn compare(&mut self, named: &str, answers: &Both, passed_over: &[&str]) {
        self.report.requests += 1;
        let normal = |answer: &Answer| Normaliser::new(NAMESPACE).answer(answer);
        let found = compare(&normal(&answers.ours), &normal(&answers.real));
        let counts = |d: &&Difference| !passed_over.iter().any(|path| d.path.starts_with(path));
        let found = found.iter().filter(counts);
        self.report.problems.extend(found.map(|d| format!("{named}\n    {d}")));
    }
}

/// The valid object under a name of its own.
fn object(crd: &Crd, version: &str, name: &str, base: &Tree) -> Tree {
    let group_version = format!("{}/{version}", crd.group());
    let head = tree!({"apiVersion": group_version, "kind": crd.kind(),
        "metadata": {"name": format!("{name}-{version}")}});
    head.merge(base)
}

fn is_established(answer: &Answer) -> bool {
    let conditions = answer.body.items_at(&["status", "conditions"]);
    let is = |c: &Tree| c.str_at(&["type"]) == "Established" && c.str_at(&["status"]) == "True";
    conditions.iter().any(is)
}

fn wait(server: &Server, path: &str, ready: impl Fn(&Answer) -> bool) -> Result<Answer, String> {
    for _ in 0..SERVED_TRIES {
        let answer = server.get(path)?;
        if ready(&answer) {
            return Ok(answer);
        }
        std::thread::sleep(SERVED_PAUSE);
    }
    Err(format!("{}{path} never became what was waited for", server.base()))
}

fn accepted(answer: &Answer) -> Result<(), String> {
    if answer.code < 300 {
        return Ok(());
    }
    Err(format!("the real server refuses it: {}", answer.body.str_at(&["message"])))
}

/// What is wrong with a case, judged by what the real server answered to its last request.
fn verdict(case: &Case, answer: &Answer) -> Option<String> {
    if case.accepted {
        return accepted(answer).err();
    }
    if answer.code != 422 {
        return Some(format!(
            "it is not refused as invalid: {} {}",
            answer.code,
            answer.body.str_at(&["message"])
        ));
    }
    let causes = answer.body.items_at(&["details", "causes"]);
    let is_meant = |cause: &Tree| {
        place_of(cause.str_at(&["field"])) == case.at && cause.str_at(&["message"]).contains(&case.breaks)
    };
    if !causes.iter().any(is_meant) {
        return Some(format!("something else is refused: {}", answer.body.str_at(&["message"])));
    }
    let alone = causes.len() == 1;
    if !case.breaks.is_empty() && alone != case.with_others.is_empty() {
        let all = answer.body.str_at(&["message"]);
        return Some(format!("{} comes with it: {all}", if alone { "nothing" } else { "more" }));
    }
    None
}

/// A field without its indexes; `<nil>` stands for the whole object.
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
    fn a_field_is_found_at_any_index() {
        assert_eq!(place_of("spec.jobs[12].steps[0]"), "spec.jobs[].steps[]");
        assert_eq!(place_of("<nil>"), "");
    }

    #[test]
    fn a_case_must_break_its_rule_and_nothing_else() {
        let refused = |causes: Tree| Answer {
            code: 422,
            warnings: vec![],
            media: String::new(),
            body: tree!({"details": {"causes": causes}}),
        };
        let text = "{at: 'spec.list[]', breaks: too odd, do: []}";
        let case: Case = muster_tree::from_tree(&Tree::parse_yaml(text).unwrap()).unwrap();
        let meant = tree!({"field": "spec.list[3]", "message": "Invalid value: 3: too odd"});
        let other = tree!({"field": "spec.other", "message": "Required value"});
        assert_eq!(verdict(&case, &refused(Tree::list([meant.clone()]))), None);
        assert!(verdict(&case, &refused(Tree::list([other.clone()]))).is_some());
        assert!(verdict(&case, &refused(Tree::list([meant, other]))).is_some());
        let fine = Answer { code: 201, ..refused(Tree::Null) };
        assert!(verdict(&case, &fine).is_some());
    }
}
