//! The CEL rules of the JobSet, Kueue and Trainer CRDs on both servers: a case for each kind.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, CaseRun, Suite, names, real_cluster_unavailable};
use crate::corpus::{CorpusGroup, CorpusReport, CorpusRun, Crd, crds, load};
use crate::limits::BUSY;
use crate::server_pair::ServerPair;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// State shared by all cases.
struct Corpus {
    groups: Vec<CorpusGroup>,
    /// Published CRDs; an error without Go.
    crds: OnceLock<Result<Vec<Crd>, String>>,
    planes: Arc<SharedEnvironment<ServerPair>>,
    report: Mutex<CorpusReport>,
}

/// The servers are not shared with other comparisons: the CRDs would appear in their discovery.
pub fn suites() -> Result<Vec<Suite>, String> {
    let planes = SharedEnvironment::new("a pair of planes for CRDs", ServerPair::existing_or_new);
    let groups = load(&folder())?;
    let mut kinds: Vec<(String, String)> = Vec::new();
    for (file, kind) in groups.iter().flat_map(|it| it.kinds.iter().map(|kind| (&it.file, kind))) {
        if kinds.iter().all(|(_, seen)| seen != kind) {
            kinds.push((file.clone(), kind.clone()));
        }
    }
    let corpus = Arc::new(Corpus { groups, crds: OnceLock::new(), planes, report: Mutex::default() });
    let cases = kinds.into_iter().map(|(file, kind)| {
        let corpus = corpus.clone();
        let name = names::name(&["corpus", &file, &kind]);
        Case::new(name, &BUSY, real_cluster_unavailable(), move |run| corpus.run_kind(run, &kind))
    });
    let cases = cases.collect();
    let finish = move |_: &_| {
        let report = corpus.report.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(report.to_string().lines().last().map(str::to_owned).into_iter().collect())
    };
    Ok(vec![Suite { label: "corpus".to_owned(), cases, finish: Box::new(finish) }])
}

impl Corpus {
    fn run_kind(&self, run: &CaseRun, kind: &str) -> Result<(), CaseError> {
        // In CI, missing modules are a failure.
        let missing = if std::env::var_os("CI").is_some() { CaseError::Failed } else { CaseError::Skipped };
        let crds = self.crds.get_or_init(crds).as_ref().map_err(|why| missing(why.clone()))?;
        let planes = self.planes.get(run)?;
        let crd = crds.iter().find(|crd| crd.kind() == kind);
        let crd = crd.ok_or_else(|| format!("no module publishes a CRD of the kind {kind}"))?;
        let mut pair = CorpusRun::new(&planes.ours, &planes.real)?;
        if planes.is_existing() {
            // An existing server may have it from an earlier run.
            pair.delete_crd(crd)?;
        }
        pair.run_groups(crd, &self.groups)?;
        if planes.is_existing() {
            pair.delete_crd(crd)?;
        }
        let problems = pair.report.problems.join("\n");
        self.report.lock().unwrap_or_else(PoisonError::into_inner).add(pair.report);
        if problems.is_empty() { Ok(()) } else { Err(CaseError::Failed(problems)) }
    }
}
