//! Detects the gang API of a cluster: which group and version it serves, and whether pods have a field for their PodGroup.
//!
//! # Guarantees
//!
//! - A version counts by the kinds that it serves: `scheduling.k8s.io/v1beta1` existed before it had Workloads.
//! - The pod field is detected by a dry run: an API server may know the field and drop it, because APIs and fields have
//!   feature gates of their own. The dry run creates a suspended Job, which any operator that runs JobSets may create, and
//!   persists nothing.
//! - Nothing is guessed from the version of the API server.

use muster_api::client::{
    ApiError, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::gang::{GangApi, GangSupport, GroupMarker};
use muster_api::{kinds, meta};
use muster_cluster::{KubeApi, ServedResource};
use muster_tree::{Text, Tree, literal, tree};

/// The gang APIs, in order of preference. The proposal's API and that of 1.35 share a version; PodGroups tell them apart.
const PREFERRED_APIS: [GangApi; 5] =
    [GangApi::Proposal, GangApi::Released, GangApi::Earlier, GangApi::Legacy, GangApi::Own];
/// Name of the Job in the dry run.
const DRY_RUN_NAME: Text = literal!("muster-rehearsal");
/// Path of the pod spec in a Job.
const POD: [&str; 3] = ["spec", "template", "spec"];

/// What a dry run shows about the pod field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldSupport {
    Preserved,
    /// The API server prunes or does not know it.
    Dropped,
    /// Unknown: the dry run failed for another reason.
    Unknown,
}

/// Detects the gang API; `None` where the cluster serves none. The dry run is sent to this namespace.
pub async fn detect(api: &KubeApi, served: &[ServedResource], namespace: &str) -> Option<GangSupport> {
    let form = served_api(served)?;
    let Some(field) = pod_field(form) else { return Some(gang_support(form, FieldSupport::Dropped)) };
    let call = dry_run_job(namespace, field);
    Some(gang_support(form, field_support(&api.dry_run(&call).await.map(|it| it.tree), field)))
}

/// The log line about what was detected.
pub(crate) fn describe(gangs: Option<GangSupport>) -> String {
    let Some(GangSupport { api: form, marker: mark }) = gangs else {
        return "this cluster serves no gang API, neither its own nor ours: \
            `muster crds | kubectl apply --server-side -f -` installs ours"
            .to_owned();
    };
    let by = match (mark, pod_field(form)) {
        (GroupMarker::Field, Some(field)) => format!("the field `{field}`"),
        _ => "annotations".to_owned(),
    };
    format!("gang API is {}; pods reference their group by {by}", meta::api_version(form.workloads()))
}

/// The preferred API of which all kinds are served.
fn served_api(served: &[ServedResource]) -> Option<GangApi> {
    let has = |kind: &Kind| served.iter().any(|it| it.kind == *kind);
    let all = |form: &GangApi| has(form.workloads()) && form.groups().is_none_or(has);
    PREFERRED_APIS.into_iter().find(all)
}

/// The pod field that names the group, where the API has one.
fn pod_field(form: GangApi) -> Option<&'static str> {
    match form {
        GangApi::Proposal | GangApi::Legacy => Some("workloadRef"),
        GangApi::Released | GangApi::Earlier => Some("schedulingGroup"),
        GangApi::Own => None,
    }
}

/// An API server that serves the kinds and fails the dry run has the field, too: one feature gate is for both.
fn gang_support(form: GangApi, field: FieldSupport) -> GangSupport {
    let mark = if field == FieldSupport::Dropped { GroupMarker::Annotations } else { GroupMarker::Field };
    GangSupport { api: form, marker: mark }
}

/// The dry-run request: a suspended Job, whose pod template names a group.
fn dry_run_job(namespace: &str, field: &str) -> ApiRequest {
    let group = match field {
        "schedulingGroup" => tree!({"podGroupName": "g"}),
        // Satisfies both versions of the field.
        _ => tree!({"name": "w", "podGroup": "g"}),
    };
    let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": true}});
    let job = job.with(&POD, pod.with(&[field], group));
    let on = RequestTarget {
        kind: kinds::JOBS.clone(),
        namespace: Text::from(namespace),
        name: DRY_RUN_NAME,
        subresource: Subresource::Main,
    };
    ApiRequest {
        field_manager: literal!("muster"),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(job),
    }
}

fn field_support(answer: &Result<Tree, ApiError>, field: &str) -> FieldSupport {
    match answer {
        Ok(job) => {
            let kept = job.at(&[&POD[..], &[field]].concat()).is_some_and(|it| !it.is_empty());
            if kept { FieldSupport::Preserved } else { FieldSupport::Dropped }
        }
        // Strict field validation rejects unknown fields.
        Err(ApiError::Invalid(words)) if words.contains("unknown field") => FieldSupport::Dropped,
        Err(_) => FieldSupport::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(kinds: &[&str]) -> Vec<ServedResource> {
        let one = |text: &&str| {
            let mut words = text.split('/').map(Text::from);
            let mut next = || words.next().unwrap();
            let kind = Kind { group: next(), version: next(), plural: next() };
            ServedResource { kind, kind_name: "X".into(), namespaced: true }
        };
        kinds.iter().map(one).collect()
    }

    /// Shows: 5832-62, 5832-63.
    #[test]
    fn the_gang_api_is_detected_by_its_kinds() {
        let own = ["scheduling.muster.dev/v1alpha1/workloads", "scheduling.muster.dev/v1alpha1/podgroups"];
        let native =
            |version: &str| ["workloads", "podgroups"].map(|it| format!("scheduling.k8s.io/{version}/{it}"));
        let (released, earlier, proposal) = (native("v1beta1"), native("v1alpha2"), native("v1alpha1"));
        let text = |it: &[String; 2]| it.clone().map(|it| -> &'static str { it.leak() });
        let (released, earlier, proposal) = (text(&released), text(&earlier), text(&proposal));
        for (says, kinds, want) in [
            ("nothing", vec![], None),
            ("a version of other kinds", vec!["scheduling.k8s.io/v1beta1/priorityclasses"], None),
            ("ours", own.to_vec(), Some(GangApi::Own)),
            ("half of ours", own[..1].to_vec(), None),
            ("1.37 before ours", [&own[..], &released].concat(), Some(GangApi::Released)),
            ("1.36", [&own[..], &earlier].concat(), Some(GangApi::Earlier)),
            ("1.35", [&own[..], &proposal[..1]].concat(), Some(GangApi::Legacy)),
            (
                "our server, which has both views",
                [&proposal[..], &released].concat(),
                Some(GangApi::Proposal),
            ),
            ("the better of two", [&earlier[..], &released].concat(), Some(GangApi::Released)),
            ("half of one", [&own[..], &released[1..]].concat(), Some(GangApi::Own)),
        ] {
            assert_eq!(served_api(&served(&kinds)), want, "{says}");
        }
    }

    /// Shows: 5832-62.
    #[test]
    fn the_pod_field_is_detected_by_a_dry_run() {
        let job = |spec: Tree| Ok(Tree::empty_map().with(&POD, spec));
        let field = "schedulingGroup";
        let unknown = r#"strict decoding error: unknown field "spec.template.spec.schedulingGroup""#;
        for (says, answer, want) in [
            ("kept", job(tree!({"schedulingGroup": {"podGroupName": "g"}})), FieldSupport::Preserved),
            ("dropped", job(tree!({"restartPolicy": "Never"})), FieldSupport::Dropped),
            ("unknown", Err(ApiError::Invalid(unknown.to_owned())), FieldSupport::Dropped),
            ("another fault", Err(ApiError::Invalid("no such image".to_owned())), FieldSupport::Unknown),
            ("no right", Err(ApiError::Forbidden("no".to_owned())), FieldSupport::Unknown),
            ("no namespace", Err(ApiError::NotFound("no".to_owned())), FieldSupport::Unknown),
        ] {
            assert_eq!(field_support(&answer, field), want, "{says}");
        }
        assert_eq!(
            gang_support(GangApi::Released, FieldSupport::Dropped).marker,
            GroupMarker::Annotations,
            "a pruned field cannot reference the group"
        );
        assert_eq!(gang_support(GangApi::Released, FieldSupport::Unknown).marker, GroupMarker::Field);
    }

    #[test]
    fn the_detected_api_is_described() {
        for (gangs, want) in [
            (
                Some(GangSupport { api: GangApi::Released, marker: GroupMarker::Field }),
                "gang API is scheduling.k8s.io/v1beta1; pods reference their group by the field `schedulingGroup`",
            ),
            (
                Some(GangSupport { api: GangApi::Own, marker: GroupMarker::Annotations }),
                "gang API is scheduling.muster.dev/v1alpha1; pods reference their group by annotations",
            ),
        ] {
            assert_eq!(describe(gangs), want);
        }
        assert!(describe(None).contains("muster crds"));
    }

    #[test]
    fn the_dry_run_creates_no_pods_and_sets_the_field() {
        let RequestVerb::Create(job) = dry_run_job("n", "schedulingGroup").verb else {
            panic!("it is a create")
        };
        assert_eq!(job.bool_at(&["spec", "suspend"]), Some(true));
        assert_eq!(job.str_at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]), "g");
    }
}
