//! The columns of the built-in kinds.

use muster_tree::{Tree, tree};

use super::cells::{Row, cells};
use super::{access, cluster, devices, network, pod, storage, workloads};

/// The columns of a kind and the function that makes its cells.
pub(super) struct Kind {
    group: &'static str,
    kind: &'static str,
    /// Headings separated by `|`. `+` marks wide output, `:` precedes a type other than string.
    pub columns: &'static str,
    /// Renders the cells of one object.
    pub cells: fn(&Row<'_>) -> Vec<Tree>,
}

const fn kind(
    group: &'static str,
    kind: &'static str,
    columns: &'static str,
    cells: fn(&Row<'_>) -> Vec<Tree>,
) -> Kind {
    Kind { group, kind, columns, cells }
}

const NAME_AND_AGE: &str = "Name|Age";
const EVENT: &str = "Last Seen|Type|Reason|Object|+Subobject|+Source|Message|+First Seen|+Count|+Name";
const REPLICAS: &str = "Name|Desired:integer|Current:integer|Ready:integer|Age|+Containers|+Images|+Selector";
const BINDING: &str = "Name|Role|Age|+Users|+Groups|+ServiceAccounts";

const KINDS: &[Kind] = &[
    kind("", "ConfigMap", "Name|Data|Age", cluster::config_map),
    kind("", "Endpoints", "Name|Endpoints|Age", network::endpoints),
    kind("", "Event", EVENT, cluster::core_event),
    kind("", "Namespace", "Name|Status|Age", cluster::namespace),
    kind(
        "",
        "Node",
        "Name|Status|Roles|Age|Version|+Internal-IP|+External-IP|+OS-Image|+Kernel-Version|+Container-Runtime",
        cluster::node,
    ),
    kind(
        "",
        "PersistentVolume",
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|+VolumeMode",
        storage::volume,
    ),
    kind(
        "",
        "PersistentVolumeClaim",
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|+VolumeMode",
        storage::claim,
    ),
    kind("", "Pod", "Name|Ready|Status|Restarts|Age|+IP|+Node|+Nominated Node|+Readiness Gates", pod::cells),
    kind("", "PodTemplate", "Name|Containers|Images|Pod Labels", workloads::pod_template),
    kind("", "ReplicationController", REPLICAS, workloads::replication_controller),
    kind("", "ResourceQuota", "Name|Request|Limit|Age", cluster::resource_quota),
    kind("", "Secret", "Name|Type|Data|Age", cluster::secret),
    kind("", "Service", "Name|Type|Cluster-IP|External-IP|Port(s)|Age|+Selector", network::service),
    kind("", "ServiceAccount", NAME_AND_AGE, name_and_age),
    kind(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "Name|Webhooks:integer|Age",
        access::webhooks,
    ),
    kind(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "Name|Webhooks:integer|Age",
        access::webhooks,
    ),
    kind(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "Name|Validations:integer|ParamKind|Age",
        access::admission_policy,
    ),
    kind(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "Name|PolicyName|ParamRef|Age",
        access::admission_policy_binding,
    ),
    kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "Name|Scope|Versions|Created At:date|+Group|+Kind|+ShortNames|+Established:boolean",
        access::custom_resource_definition,
    ),
    kind("apiregistration.k8s.io", "APIService", "Name|Service|Available|Age", access::api_service),
    kind("apps", "ControllerRevision", "Name|Controller|Revision|Age", workloads::controller_revision),
    kind(
        "apps",
        "DaemonSet",
        "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|+Containers|+Images|+Selector",
        workloads::daemon_set,
    ),
    kind(
        "apps",
        "Deployment",
        "Name|Ready|Up-to-date|Available|Age|+Containers|+Images|+Selector",
        workloads::deployment,
    ),
    kind("apps", "ReplicaSet", REPLICAS, workloads::replica_set),
    kind("apps", "StatefulSet", "Name|Ready|Age|+Containers|+Images", workloads::stateful_set),
    kind(
        "batch",
        "CronJob",
        "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|+Containers|+Images|+Selector",
        workloads::cron_job,
    ),
    kind(
        "batch",
        "Job",
        "Name|Status|Completions|Duration|Age|+Containers|+Images|+Selector",
        workloads::job,
    ),
    kind("coordination.k8s.io", "Lease", "Name|Holder|Age", cluster::lease),
    kind(
        "discovery.k8s.io",
        "EndpointSlice",
        "Name|AddressType|Ports|Endpoints|Age",
        network::endpoint_slice,
    ),
    kind("events.k8s.io", "Event", EVENT, cluster::event),
    kind("networking.k8s.io", "Ingress", "Name|Class|Hosts|Address|Ports|Age", network::ingress),
    kind("networking.k8s.io", "IngressClass", "Name|Controller|Parameters|Age", network::ingress_class),
    kind("networking.k8s.io", "NetworkPolicy", "Name|Pod-Selector|Age", network::network_policy),
    kind("node.k8s.io", "RuntimeClass", "Name|Handler|Age", cluster::runtime_class),
    kind(
        "policy",
        "PodDisruptionBudget",
        "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
        workloads::disruption_budget,
    ),
    kind("rbac.authorization.k8s.io", "ClusterRoleBinding", BINDING, access::binding),
    kind("rbac.authorization.k8s.io", "RoleBinding", BINDING, access::binding),
    kind("resource.k8s.io", "DeviceClass", NAME_AND_AGE, name_and_age),
    kind("resource.k8s.io", "DeviceTaintRule", "Name|Key|Value|Effect|TimeAdded|Age", devices::taint_rule),
    kind("resource.k8s.io", "ResourceClaim", "Name|State|Age", devices::claim),
    kind("resource.k8s.io", "ResourceClaimTemplate", NAME_AND_AGE, name_and_age),
    kind("resource.k8s.io", "ResourceSlice", "Name|Node|Driver|Pool|Age", devices::slice),
    kind(
        "scheduling.k8s.io",
        "PriorityClass",
        "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
        cluster::priority_class,
    ),
    kind("scheduling.k8s.io", "Workload", NAME_AND_AGE, name_and_age),
    kind(
        "storage.k8s.io",
        "CSIDriver",
        "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age",
        storage::csi_driver,
    ),
    kind("storage.k8s.io", "CSINode", "Name|Drivers:integer|Age", storage::csi_node),
    kind(
        "storage.k8s.io",
        "StorageClass",
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        storage::storage_class,
    ),
    kind(
        "storage.k8s.io",
        "VolumeAttachment",
        "Name|Attacher|PV|Node|Attached:boolean|Age",
        storage::volume_attachment,
    ),
    kind("storage.k8s.io", "VolumeAttributesClass", "Name|DriverName|Age", storage::attributes_class),
];

/// PodGroup columns of `v1alpha1`, with counts, and of `v1beta1`.
const GROUP_ALPHA: Kind = kind(
    "scheduling.k8s.io",
    "PodGroup",
    "Name|Workload|Template|Scheduled:integer|Status|Age",
    devices::pod_group_alpha,
);
const GROUP_BETA: Kind =
    kind("scheduling.k8s.io", "PodGroup", "Name|Policy|Workload|Status|Age", devices::pod_group_beta);
const OTHER: Kind = kind("", "", "Name|Created At:date", name_and_creation);

/// The columns of this kind.
pub(super) fn find(group: &str, version: &str, name: &str) -> &'static Kind {
    if group == GROUP_ALPHA.group && name == GROUP_ALPHA.kind {
        return if version.contains("alpha1") { &GROUP_ALPHA } else { &GROUP_BETA };
    }
    KINDS.iter().find(|k| k.kind == name && k.group == group).unwrap_or(&OTHER)
}

/// `columnDefinitions` of a line of columns.
pub(super) fn definitions(columns: &str) -> Tree {
    Tree::list(columns.split('|').map(|column| {
        let (column, priority) = column.strip_prefix('+').map_or((column, 0), |c| (c, 1));
        let (name, kind) = column.split_once(':').unwrap_or((column, "string"));
        let format = if matches!(name, "Name" | "Attacher") { "name" } else { "" };
        definition(name, kind, format, "", priority)
    }))
}

pub(super) fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Tree {
    tree!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// Columns and cells of a Scale; its name is a plain string upstream.
pub(super) fn scale(row: &Row<'_>) -> (Tree, Vec<Tree>) {
    let columns = ["Name:string", "Desired:integer", "Available:integer", "Age:string"].map(|column| {
        let (name, kind) = column.split_once(':').unwrap_or((column, ""));
        definition(name, kind, "", "", 0)
    });
    let cells =
        cells![row.name(), row.int(&["spec", "replicas"]), row.int(&["status", "replicas"]), row.age()];
    (Tree::list(columns), cells)
}

fn name_and_age(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.age()]
}

fn name_and_creation(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.created()]
}
