//! Gang scenarios on the embedded server and on real ones, each with its API variant.

use std::sync::Arc;

use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, Suite, names, real_cluster_unavailable};
use crate::differential::ApiClient;
use crate::gangs::{GangApiVariant, GangEnvironment, GangScenario, folder, load, run_scenario};
use crate::limits::{EMBEDDED, Limit, REAL};

/// A suite per API variant, each with its own control plane: other dialects would bind pods to its nodes, and flags of the API server
/// select the variant.
///
/// Shows: 5832-61, 5832-71.
pub fn suites() -> Result<Vec<Suite>, String> {
    let scenarios = Arc::new(load(&folder())?);
    Ok([GangApiVariant::Embedded, GangApiVariant::Native, GangApiVariant::Own]
        .map(|form| suite(form, &scenarios))
        .into())
}

fn word(form: GangApiVariant) -> &'static str {
    match form {
        GangApiVariant::Embedded => "embedded",
        GangApiVariant::Native => "native",
        GangApiVariant::Own => "own",
    }
}

fn suite(form: GangApiVariant, scenarios: &Arc<Vec<GangScenario>>) -> Suite {
    let nodes = scenarios.clone();
    let environment =
        SharedEnvironment::new("the control plane of gangs", move || GangEnvironment::start(form, &nodes));
    let (limit, skip): (&'static Limit, _) = if form == GangApiVariant::Embedded {
        (&EMBEDDED, None)
    } else {
        (&REAL, real_cluster_unavailable())
    };
    let played = scenarios.iter().enumerate().filter(|(_, it)| it.runs_on(form));
    let mut cases: Vec<Case> = played
        .map(|(n, scenario)| {
            let (environment, scenarios) = (environment.clone(), scenarios.clone());
            let name = names::name(&["gangs", &scenario.file, word(form), &scenario.name]);
            Case::new(name, limit, skip.clone(), move |run| {
                let environment = environment.get(run)?;
                run_scenario(environment, n, &scenarios[n]).map_err(|why| fail_with_log(&why, environment))
            })
        })
        .collect();
    if form != GangApiVariant::Embedded {
        let name = names::name(&[
            "gangs",
            "forms",
            word(form),
            "the operator logs the API variant and creates no CRD of Kubernetes",
        ]);
        cases.push(Case::new(name, limit, skip, move |run| form_is_logged(environment.get(run)?)));
    }
    Suite { label: format!("gangs on {}", word(form)), cases, finish: Box::new(|_| Ok(Vec::new())) }
}

fn fail_with_log(why: &str, environment: &GangEnvironment) -> CaseError {
    CaseError::Failed(format!("{why}\n{}", super::scenarios::last_lines(&environment.operator_log())))
}

/// The operator logs the API variant that it discovered. It must not create CRDs in the group of Kubernetes: they would not be served and
/// would break the discovery of the group.
///
/// Shows: 5832-62, 5832-63.
fn form_is_logged(environment: &GangEnvironment) -> Result<(), CaseError> {
    let log = environment.operator_log();
    let words: &[&str] = match environment.form {
        GangApiVariant::Native => &["scheduling.k8s.io/v1beta1"],
        _ => &["scheduling.muster.dev/v1alpha1", "annotations"],
    };
    if let Some(word) = words.iter().find(|word| !log.contains(**word)) {
        return Err(CaseError::Failed(format!("the log of the operator has no {word:?}: {log}")));
    }
    Ok(no_definition_of_kubernetes(&environment.server)?)
}

fn no_definition_of_kubernetes(server: &ApiClient) -> Result<(), String> {
    let all = server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")?.body;
    let groups: Vec<&str> = all.items_at(&["items"]).iter().map(|it| it.str_at(&["spec", "group"])).collect();
    if !groups.contains(&"scheduling.muster.dev") || groups.contains(&"scheduling.k8s.io") {
        return Err(format!("CRDs are of the groups {groups:?}"));
    }
    let group = server.get("/apis/scheduling.k8s.io")?.body;
    match group.str_at(&["preferredVersion", "version"]) {
        "v1" => Ok(()),
        other => Err(format!("the preferred version of scheduling.k8s.io is {other:?}")),
    }
}
