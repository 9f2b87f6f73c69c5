//! What tests of admission are made of.

use std::cell::RefCell;
use std::collections::BTreeMap;

use muster_api::port::Kind;
use muster_api::words::jobset::JOB_KEY;
use muster_api::{kinds, meta};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree, literal, tree};

use super::{Answer, Asked, DryRun, Live, Settings, check_jobset};
use crate::Gates;

/// The namespace of everything here.
pub static NAMESPACE: Text = literal!("n");

/// Other objects that tests put there; nothing, by default.
#[derive(Default)]
pub struct Nothing {
    pub settings: Settings,
    pub volume_claims: BTreeMap<String, Tree>,
    pub device_claims: Vec<Tree>,
    pub nodes: BTreeMap<String, Tree>,
    pub pods: Vec<Tree>,
    /// How dry runs are answered, by kind and name; all others find nothing wrong.
    pub dry_runs: BTreeMap<(String, String), DryRun>,
    /// The dry runs that were asked for.
    pub asked: RefCell<Vec<(Kind, Tree)>>,
    /// When set, every look fails with these words.
    pub broken: Option<&'static str>,
}

impl Nothing {
    /// With these gates.
    pub fn gated(gates: Gates) -> Nothing {
        Nothing { settings: Settings { gates, reject_overrides: false }, ..Nothing::default() }
    }

    fn whole(&self) -> Result<(), String> {
        self.broken.map_or(Ok(()), |words| Err(words.to_owned()))
    }
}

impl Live for Nothing {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        assert_eq!(namespace, NAMESPACE);
        self.whole().map(|()| self.volume_claims.get(name).cloned())
    }

    fn device_claims(&self, namespace: &str, _: &str) -> Result<Vec<Tree>, String> {
        assert_eq!(namespace, NAMESPACE);
        self.whole().map(|()| self.device_claims.clone())
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        self.whole().map(|()| self.nodes.get(name).cloned())
    }

    fn first_pods(&self, namespace: &str, _: &str, key: &str) -> Result<Vec<Tree>, String> {
        assert_eq!(namespace, NAMESPACE);
        let fits = |pod: &&Tree| meta::label(pod, JOB_KEY) == Some(key);
        self.whole().map(|()| self.pods.iter().filter(fits).cloned().collect())
    }

    fn dry_run(&self, kind: &Kind, object: &Tree) -> DryRun {
        self.asked.borrow_mut().push((kind.clone(), object.clone()));
        let key = (format!("{}/{}", kind.version, kind.plural), meta::name(object).to_string());
        self.dry_runs.get(&key).cloned().unwrap_or(DryRun::Valid)
    }

    fn device_claim_kinds(&self) -> Vec<Kind> {
        let old = Kind { version: literal!("v1beta1"), ..kinds::RESOURCE_CLAIMS.clone() };
        vec![kinds::RESOURCE_CLAIMS.clone(), old]
    }
}

/// A question about an object.
pub fn asked<'a>(object: &'a Tree, old: Option<&'a Tree>, live: &'a Nothing) -> Asked<'a> {
    Asked { namespace: &NAMESPACE, object, old, live, settings: &live.settings }
}

/// What is wrong, one line each.
pub fn lines(problems: &[FieldError]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// A set that is right, changed by a part of its spec.
pub fn set(spec: &Tree) -> Tree {
    let good = tree!({"metadata": {"name": "s"}, "spec": {"replicatedJobs": [{"name": "w"}]}});
    good.merge(&tree!({"spec": spec}))
}

/// What is wrong with a new set, with nothing else there.
pub fn problems(set: &Tree) -> Vec<String> {
    let nothing = Nothing::default();
    lines(&check_jobset(&asked(set, None, &nothing)).problems)
}

/// Exactly these problems, each told by some of its words.
pub fn expect(set: &Tree, want: &[&str]) {
    expect_with(set, &Nothing::default(), want);
}

/// The same with other objects there.
pub fn expect_with(set: &Tree, live: &Nothing, want: &[&str]) {
    compare(set, &check_jobset(&asked(set, None, live)), want);
}

/// The same of a change.
pub fn expect_update(old: &Tree, new: &Tree, live: &Nothing, want: &[&str]) {
    compare(new, &check_jobset(&asked(new, Some(old), live)), want);
}

fn compare(set: &Tree, answer: &Answer, want: &[&str]) {
    let got = lines(&answer.problems);
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(line, words)| line.contains(words));
    assert!(fits, "{set}\nwant {want:#?}\ngot {got:#?}");
    assert_eq!(answer.refused, None);
}
