//! Names of the operator's objects on a cluster.

/// The default namespace of the operator.
pub const NAMESPACE: &str = "muster-system";
/// The Deployment, its ServiceAccount, roles, bindings, budget and Lease.
pub const OPERATOR: &str = "muster-operator";
/// The ClusterRole of the queue controllers, and its binding.
pub const OPERATOR_QUEUES: &str = "muster-operator-queues";
/// The Service of the webhooks.
pub const WEBHOOK_SERVICE: &str = "muster-webhook";
/// The Service of the aggregated visibility API; it selects the leader.
pub const VISIBILITY_SERVICE: &str = "muster-visibility";
/// The Service of `/metrics`.
pub const METRICS_SERVICE: &str = "muster-metrics";
/// The Secret with the CA and the serving certificate of the webhooks.
pub const WEBHOOK_SECRET: &str = "muster-webhook-certs";
/// The ConfigMap with the configuration file.
pub const CONFIG: &str = "muster-config";
/// The key of the file in that ConfigMap.
pub const CONFIG_FILE: &str = "config.yaml";
/// The namespace in which Trainer's clients look up the installed version.
pub const TRAINING_NAMESPACE: &str = "kubeflow-system";
