//! Fixtures of admission tests.

use std::cell::RefCell;
use std::collections::BTreeMap;

use muster_api::client::Kind;
use muster_api::consts::jobset::JOB_KEY;
use muster_api::{kinds, meta};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree, literal, tree};

use super::{AdmissionContext, AdmissionSettings, Answer, DryRun, LiveLister, check_jobset};
use crate::FeatureGates;

/// The namespace of everything here.
pub static NAMESPACE: Text = literal!("n");

/// A lister with the objects of a test; empty by default.
#[derive(Default)]
pub struct FakeLister {
    pub settings: AdmissionSettings,
    pub volume_claims: BTreeMap<String, Tree>,
    pub device_claims: Vec<Tree>,
    pub nodes: BTreeMap<String, Tree>,
    pub pods: Vec<Tree>,
    /// Results of dry runs by kind and name; all others are valid.
    pub dry_runs: BTreeMap<(String, String), DryRun>,
    /// The dry runs so far.
    pub asked: RefCell<Vec<(Kind, Tree)>>,
    /// If set, every read fails with this message.
    pub broken: Option<&'static str>,
}

impl FakeLister {
    pub fn gated(gates: FeatureGates) -> FakeLister {
        FakeLister { settings: AdmissionSettings { gates, reject_overrides: false }, ..FakeLister::default() }
    }

    fn whole(&self) -> Result<(), String> {
        self.broken.map_or(Ok(()), |words| Err(words.to_owned()))
    }
}

impl LiveLister for FakeLister {
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

/// An admission request for an object.
pub fn asked<'a>(object: &'a Tree, old: Option<&'a Tree>, live: &'a FakeLister) -> AdmissionContext<'a> {
    AdmissionContext { namespace: &NAMESPACE, object, old, live, settings: &live.settings }
}

/// The errors, one line each.
pub fn lines(problems: &[FieldError]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// A valid JobSet with part of its spec replaced.
pub fn set(spec: &Tree) -> Tree {
    let good = tree!({"metadata": {"name": "s"}, "spec": {"replicatedJobs": [{"name": "w"}]}});
    good.merge(&tree!({"spec": spec}))
}

/// The errors of a new JobSet without other objects.
pub fn problems(set: &Tree) -> Vec<String> {
    let nothing = FakeLister::default();
    lines(&check_jobset(&asked(set, None, &nothing)).problems)
}

/// Expects exactly these errors, each given by a part of its message.
pub fn expect(set: &Tree, want: &[&str]) {
    expect_with(set, &FakeLister::default(), want);
}

/// The same with other objects.
pub fn expect_with(set: &Tree, live: &FakeLister, want: &[&str]) {
    compare(set, &check_jobset(&asked(set, None, live)), want);
}

/// The same for an update.
pub fn expect_update(old: &Tree, new: &Tree, live: &FakeLister, want: &[&str]) {
    compare(new, &check_jobset(&asked(new, Some(old), live)), want);
}

fn compare(set: &Tree, answer: &Answer, want: &[&str]) {
    let got = lines(&answer.problems);
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(line, words)| line.contains(words));
    assert!(fits, "{set}\nwant {want:#?}\ngot {got:#?}");
    assert_eq!(answer.refused, None);
}
