//! Documents and their conversion for each gang API.

use super::*;
use crate::run::files;

fn read(text: &str) -> Vec<Document> {
    files::documents("f.yaml", text).unwrap()
}

fn gangs(form: GangApi) -> GangSupport {
    let mark = if form == GangApi::Own { GroupMarker::Annotations } else { GroupMarker::Field };
    GangSupport { api: form, marker: mark }
}

/// Converts the documents of a text; the result is JSON.
fn told(text: &str, gangs: GangSupport) -> Vec<String> {
    let done = rewrite(&read(text), gangs).unwrap();
    done.documents.iter().map(|it| it.tree.to_json()).collect()
}

const WORKLOAD: &str = "{apiVersion: scheduling.k8s.io/v1alpha1, kind: Workload, metadata: {name: w}, \
    spec: {podGroupTemplates: [{name: t, policy: {gang: {minCount: 2}}, disruptionMode: {all: {}}}]}}";
const GROUP: &str = "{apiVersion: scheduling.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, \
    spec: {workloadRef: {name: w}, podGroupTemplateRef: {name: t}}}";
const BY_WORD: &str = "{apiVersion: scheduling.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, \
    spec: {workloadRef: {name: w, apiVersion: scheduling.k8s.io/v1alpha1}, podGroupTemplateName: t}}";
const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {workloadRef: {name: w, podGroupName: g}}}";

fn all() -> String {
    [WORKLOAD, GROUP, POD].join("\n---\n")
}

/// Shows: 5832-64.
#[test]
fn the_same_files_for_every_server() {
    let own = r#"{"apiVersion":"scheduling.muster.dev/v1alpha1","#;
    for (form, want) in [
        (GangApi::Proposal, None),
        (
            GangApi::Released,
            Some(vec![
                r#"{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"Workload","metadata":{"name":"w"},"spec":{"podGroupTemplates":[{"disruptionMode":{"all":{}},"name":"t","schedulingPolicy":{"gang":{"minCount":2}}}]}}"#.to_owned(),
                r#"{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{"name":"g"},"spec":{"disruptionMode":{"all":{}},"schedulingPolicy":{"gang":{"minCount":2}},"workloadRef":{"templateName":"t","workloadName":"w"}}}"#.to_owned(),
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"schedulingGroup":{"podGroupName":"g"}}}"#.to_owned(),
            ]),
        ),
        (
            GangApi::Earlier,
            Some(vec![
                r#"{"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"Workload","metadata":{"name":"w"},"spec":{"podGroupTemplates":[{"disruptionMode":"PodGroup","name":"t","schedulingPolicy":{"gang":{"minCount":2}}}]}}"#.to_owned(),
                r#"{"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"PodGroup","metadata":{"name":"g"},"spec":{"disruptionMode":"PodGroup","podGroupTemplateRef":{"workload":{"podGroupTemplateName":"t","workloadName":"w"}},"schedulingPolicy":{"gang":{"minCount":2}}}}"#.to_owned(),
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"schedulingGroup":{"podGroupName":"g"}}}"#.to_owned(),
            ]),
        ),
        (
            GangApi::Legacy,
            Some(vec![
                r#"{"apiVersion":"scheduling.k8s.io/v1alpha1","kind":"Workload","metadata":{"name":"w"},"spec":{"podGroups":[{"name":"t","policy":{"gang":{"minCount":2}}}]}}"#.to_owned(),
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"workloadRef":{"name":"w","podGroup":"t","podGroupReplicaKey":"g"}}}"#.to_owned(),
            ]),
        ),
        (
            GangApi::Own,
            Some(vec![
                format!(r#"{own}"kind":"Workload","metadata":{{"name":"w"}},"spec":{{"podGroupTemplates":[{{"disruptionMode":{{"all":{{}}}},"name":"t","policy":{{"gang":{{"minCount":2}}}}}}]}}}}"#),
                format!(r#"{own}"kind":"PodGroup","metadata":{{"name":"g"}},"spec":{{"podGroupTemplateRef":{{"name":"t"}},"workloadRef":{{"name":"w"}}}}}}"#),
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"scheduling.muster.dev/pod-group":"g","scheduling.muster.dev/workload":"w"},"labels":{"scheduling.muster.dev/pod-group-hash":"HASH"},"name":"p"},"spec":{"schedulerName":"muster-scheduler"}}"#
                    .replace("HASH", &muster_api::gang_objects::names::group_hash("g")),
            ]),
        ),
    ] {
        let plain: Vec<String> = read(&all()).iter().map(|it| it.tree.to_json()).collect();
        assert_eq!(told(&all(), gangs(form)), want.unwrap_or(plain), "{form:?}");
    }
}

/// Shows: 5832-64.
#[test]
fn templates_of_pods_are_pods() {
    let pod = r#"{"spec":{"schedulingGroup":{"podGroupName":"g"}}}"#;
    let template = "template: {spec: {workloadRef: {name: w, podGroupName: g}}}";
    for (says, text, want) in [
        ("a Job", format!("{{apiVersion: batch/v1, kind: Job, spec: {{{template}}}}}"), 1),
        (
            "a JobSet",
            format!(
                "{{kind: JobSet, spec: {{replicatedJobs: [{{template: {{spec: {{{template}}}}}}}, {{name: b}}, {{template: {{spec: {{{template}}}}}}}]}}}}"
            ),
            2,
        ),
        (
            "a runtime of TrainJobs",
            format!(
                "{{kind: ClusterTrainingRuntime, spec: {{template: {{spec: {{replicatedJobs: [{{template: {{spec: {{{template}}}}}}}]}}}}}}}}"
            ),
            1,
        ),
        ("a CronJob", format!("{{kind: CronJob, spec: {{jobTemplate: {{spec: {{{template}}}}}}}}}"), 1),
        ("a Deployment", format!("{{kind: Deployment, spec: {{{template}}}}}"), 1),
        ("a kind of others", format!("{{kind: Other, spec: {{{template}}}}}"), 0),
    ] {
        let made = told(&text, gangs(GangApi::Released)).concat();
        assert_eq!(made.matches(pod).count(), want, "{says}: {made}");
        assert_eq!(uses_proposed_api(&read(&text)), want > 0, "{says}");
    }
}

#[test]
fn a_scheduler_that_was_named_stays_and_so_does_what_speaks_of_no_gang() {
    let named = POD.replace("spec: {", "spec: {schedulerName: mine, ");
    assert!(told(&named, gangs(GangApi::Own))[0].contains(r#""schedulerName":"mine""#));
    let other =
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulingGroup: {podGroupName: g}}}";
    let done = rewrite(&read(other), gangs(GangApi::Own)).unwrap();
    assert_eq!((done.documents, done.summary), (read(other), None));
    assert!(!uses_proposed_api(&read(other)));
}

#[test]
fn references_and_policies_in_every_spelling() {
    let files = [WORKLOAD, BY_WORD].join("\n---\n");
    assert!(told(&files, gangs(GangApi::Released))[1].contains(r#""templateName":"t""#));
    let own = told(&files, gangs(GangApi::Own));
    assert!(
        own[1].contains(r#""workloadRef":{"apiVersion":"scheduling.muster.dev/v1alpha1","name":"w"}"#),
        "{own:?}"
    );
    let carried = GROUP.replace("spec: {", "spec: {schedulingPolicy: {basic: {}}, ");
    let alone = told(&carried, gangs(GangApi::Released));
    assert!(
        alone[0].contains(r#""schedulingPolicy":{"basic":{}}"#),
        "its own policy needs no Workload: {alone:?}"
    );
    let later = WORKLOAD.replace("policy:", "schedulingPolicy:");
    assert!(told(&later, gangs(GangApi::Legacy))[0].contains(r#""policy":{"gang":{"minCount":2}}"#));
}

#[test]
fn what_cannot_be_said_is_told_with_its_place() {
    let entry =
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {workloadRef: {name: w, podGroup: t}}}";
    for (text, form, words) in [
        (GROUP.to_owned(), GangApi::Released, r#"template "t" of Workload "w" is not in the files"#),
        (
            [WORKLOAD, &GROUP.replace("{name: t}", "{name: u}")].join("\n---\n"),
            GangApi::Earlier,
            r#"template "u""#,
        ),
        (entry.to_owned(), GangApi::Own, "spec.workloadRef.podGroup"),
    ] {
        let error = rewrite(&read(&text), gangs(form)).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("f.yaml document"), "{error}");
    }
    assert_eq!(told(entry, gangs(GangApi::Legacy)).len(), 1, "1.35 has entries");
}

#[test]
fn what_was_done_is_said() {
    let said = |form| rewrite(&read(&all()), gangs(form)).unwrap().summary;
    assert_eq!(said(GangApi::Proposal), None);
    let released = "this server has no scheduling.k8s.io/v1alpha1: 2 objects are told as scheduling.k8s.io/v1beta1, \
        1 pods or templates name their group by its field";
    assert_eq!(said(GangApi::Released).as_deref(), Some(released));
    let own = said(GangApi::Own).unwrap();
    assert!(own.contains("scheduling.muster.dev/v1alpha1") && own.contains("annotations"), "{own}");
    assert!(own.ends_with("1 without a scheduler of their own are placed by muster-scheduler"), "{own}");
}
