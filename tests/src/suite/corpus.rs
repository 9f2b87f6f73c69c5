//! The CRDs of JobSet, Kueue and Trainer on both servers, each of their CEL rules broken once: a case for each kind.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::planes::Shared;
use super::{Case, Run, Stop, Suite, names, real_missing};
use crate::corpus::{Crd, Group, Pair, Report, crds, load};
use crate::limits::BUSY;
use crate::planes::Planes;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// All that the cases share.
struct Corpus {
    groups: Vec<Group>,
    /// The published CRDs; an error where there is no Go to find them with.
    crds: OnceLock<Result<Vec<Crd>, String>>,
    planes: Arc<Shared<Planes>>,
    report: Mutex<Report>,
}

/// The planes are not those of the other comparisons: the CRDs would show in the discovery that is compared there.
pub fn suites() -> Result<Vec<Suite>, String> {
    let planes = Shared::new("a pair of planes for CRDs", Planes::given_or_new);
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
        Case::new(name, &BUSY, real_missing(), move |run| corpus.play(run, &kind))
    });
    let cases = cases.collect();
    let finish = move |_: &_| {
        let report = corpus.report.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(report.to_string().lines().last().map(str::to_owned).into_iter().collect())
    };
    Ok(vec![Suite { label: "corpus".to_owned(), cases, finish: Box::new(finish) }])
}

impl Corpus {
    fn play(&self, run: &Run, kind: &str) -> Result<(), Stop> {
        // In CI a machine without the modules must not go unnoticed.
        let missing = if std::env::var_os("CI").is_some() { Stop::Failed } else { Stop::Skipped };
        let crds = self.crds.get_or_init(crds).as_ref().map_err(|why| missing(why.clone()))?;
        let planes = self.planes.get(run)?;
        let crd = crds.iter().find(|crd| crd.kind() == kind);
        let crd = crd.ok_or_else(|| format!("no module publishes a CRD of the kind {kind}"))?;
        let mut pair = Pair::new(&planes.ours, &planes.real)?;
        if planes.is_given() {
            // An earlier run may have left it.
            pair.forget(crd)?;
        }
        pair.play_all(crd, &self.groups)?;
        if planes.is_given() {
            pair.forget(crd)?;
        }
        let problems = pair.report.problems.join("\n");
        self.report.lock().unwrap_or_else(PoisonError::into_inner).add(pair.report);
        if problems.is_empty() { Ok(()) } else { Err(Stop::Failed(problems)) }
    }
}
