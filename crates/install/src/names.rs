//! What things of ours are called on a cluster.

/// The namespace of everything of ours, unless told otherwise.
pub const NAMESPACE: &str = "muster-system";
/// The Deployment, its ServiceAccount, roles, bindings, budget and Lease.
pub const OPERATOR: &str = "muster-operator";
/// The ClusterRole of what is done for queues, and its binding.
pub const OPERATOR_QUEUES: &str = "muster-operator-queues";
/// The Service through which an API server reaches the webhooks.
pub const WEBHOOK_SERVICE: &str = "muster-webhook";
/// The Service through which an API server hands on questions about queues; it leads to the operator in charge.
pub const VISIBILITY_SERVICE: &str = "muster-visibility";
/// The Service through which numbers are collected.
pub const METRICS_SERVICE: &str = "muster-metrics";
/// The Secret with the authority and the certificate of the webhooks.
pub const WEBHOOK_SECRET: &str = "muster-webhook-certs";
/// The ConfigMap with the configuration file.
pub const CONFIG: &str = "muster-config";
/// The key of that file.
pub const CONFIG_FILE: &str = "config.yaml";
/// The namespace in which clients of TrainJobs look for who runs them.
pub const TRAINING_NAMESPACE: &str = "kubeflow-system";
