//! Constants of the objects generated for a TrainJob: names, files, variables and settings that its pods rely on.

/// Constants of the MPI policy.
pub mod mpi {
    /// Name suffix of the Secret with the SSH keys.
    pub const SSH_SUFFIX: &str = "-mpi-ssh-auth";
    /// Name suffix of the ConfigMap with the hostfile.
    pub const HOSTFILE_SUFFIX: &str = "-mpi-hostfile";
    /// Type of the Secret.
    pub const SSH_TYPE: &str = "kubernetes.io/ssh-auth";
    /// Secret key of the private key.
    pub const PRIVATE_KEY: &str = "ssh-privatekey";
    /// Secret key of the public key.
    pub const PUBLIC_KEY: &str = "ssh-publickey";
    /// Volume of the Secret.
    pub const SSH_VOLUME: &str = "mpi-ssh-auth";
    /// Volume of the hostfile.
    pub const HOSTFILE_VOLUME: &str = "mpi-hostfile";
    /// File name and ConfigMap key of the hostfile.
    pub const HOSTFILE: &str = "hostfile";
    /// Mount path of the hostfile.
    pub const HOSTFILE_DIR: &str = "/etc/mpi";
    /// The default of `sshAuthMountPath`.
    pub const SSH_PATH: &str = "/root/.ssh";
    /// The only supported `mpiImplementation`.
    pub const OPEN_MPI: &str = "OpenMPI";
    /// ssh arguments: retry, because the launcher may start before the nodes.
    pub const RSH_ARGS: &str = "-o ConnectionAttempts=10";
}

/// Constants of the Flux policy.
pub mod flux {
    /// Name suffix of the ConfigMap with the scripts, and of its volume.
    pub const SCRIPTS_SUFFIX: &str = "-flux-entrypoint";
    /// Name suffix of the Secret with the CURVE certificate.
    pub const CURVE_SUFFIX: &str = "-flux-curve";
    /// Script of the init container.
    pub const INIT: &str = "init.sh";
    /// Script of the main container.
    pub const ENTRYPOINT: &str = "entrypoint.sh";
    /// File name and Secret key of the CURVE certificate.
    pub const CERTIFICATE: &str = "curve.cert";
    /// Setting: image with the Flux installation.
    pub const VIEW_IMAGE: &str = "FLUX_VIEW_IMAGE";
    /// Setting: network device of the broker.
    pub const NETWORK_DEVICE: &str = "FLUX_NETWORK_DEVICE";
    /// Setting: queue policy of the Flux scheduler.
    pub const QUEUE_POLICY: &str = "FLUX_QUEUE_POLICY";
    /// All settings with their defaults.
    pub const SETTINGS: [(&str, &str); 3] = [
        (VIEW_IMAGE, "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy"),
        (NETWORK_DEVICE, "eth0"),
        (QUEUE_POLICY, "fcfs"),
    ];
    /// Volume at the path where the Flux installation expects itself.
    pub const SOFTWARE_VOLUME: &str = "spack-install";
    /// Volume with the Flux installation.
    pub const FLUX_VOLUME: &str = "flux-install";
    /// Memory-backed volume of `/dev/shm`.
    pub const MEMORY_VOLUME: &str = "shared-memory";
    /// Volume of the certificate.
    pub const CURVE_VOLUME: &str = "flux-curve";
    /// Mount path of the Flux installation.
    pub const FLUX_DIR: &str = "/mnt/flux";
    /// Mount path of [`SOFTWARE_VOLUME`].
    pub const SOFTWARE_DIR: &str = "/opt/software";
    /// Mount path of the scripts.
    pub const SCRIPTS_DIR: &str = "/etc/flux-config";
    /// Mount path of the certificate.
    pub const CURVE_DIR: &str = "/curve";
    /// Mount path of [`MEMORY_VOLUME`].
    pub const MEMORY_DIR: &str = "/dev/shm";
}

/// Constants of torchtune runtimes.
pub mod torchtune {
    /// The container command that marks a torchtune runtime.
    pub const ENTRYPOINT: [&str; 2] = ["tune", "run"];
    /// Models with a torchtune recipe.
    pub const MODELS: [&str; 4] = [LLAMA3_2_1B, LLAMA3_2_3B, LLAMA3_3_70B, QWEN2_5_1_5B];
    /// Model: Llama 3.2 1B.
    pub const LLAMA3_2_1B: &str = "llama3_2/1B";
    /// Model: Llama 3.2 3B.
    pub const LLAMA3_2_3B: &str = "llama3_2/3B";
    /// Model: Llama 3.3 70B.
    pub const LLAMA3_3_70B: &str = "llama3_3/70B";
    /// Model: Qwen 2.5 1.5B.
    pub const QWEN2_5_1_5B: &str = "qwen2_5/1.5B";
    /// Settings that the runtime fixes; arguments for them are rejected.
    pub const MANAGED: [&str; 4] =
        ["output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir"];
    /// Argument of torchrun: rendezvous endpoint.
    pub const MEETING_POINT: &str = "--rdzv_endpoint";
    /// Argument of `tune run`: recipe configuration.
    pub const CONFIG: &str = "--config";
    /// Argument: attention modules that LoRA adapts.
    pub const LORA: &str = "model.lora_attn_modules";
    /// Argument: quantize the base model (QLoRA).
    pub const QUANTIZE: &str = "model.quantize_base";
    /// Argument: decompose weights (DoRA).
    pub const DORA: &str = "model.use_dora";
}

/// Gang scheduling by external schedulers (`podGroupPolicy`).
pub mod groups {
    /// Default of `coscheduling.scheduleTimeoutSeconds`, in seconds.
    pub const TIMEOUT_SECS: i64 = 60;
    /// The default of `volcano.networkTopology.mode`.
    pub const TOPOLOGY_MODE: &str = "hard";
    /// The default of `volcano.networkTopology.highestTierAllowed`.
    pub const TOPOLOGY_TIER: i64 = 1;
    /// Name of the only PodGroup template of a TrainJob.
    pub const TEMPLATE: &str = "trainer";
}

/// Progress reporting: training pods post their status to the operator.
pub mod progress {
    /// Variable: URL of the progress endpoint.
    pub const URL: &str = "KUBEFLOW_TRAINER_SERVER_URL";
    /// Variable: path of the CA certificate of the endpoint.
    pub const CA_CERT: &str = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
    /// Variable: path of the ServiceAccount token.
    pub const TOKEN: &str = "KUBEFLOW_TRAINER_SERVER_TOKEN";
    /// Projected volume of both files.
    pub const VOLUME: &str = "kubeflow-trainer-token";
    /// Mount path of that volume.
    pub const DIR: &str = "/var/run/secrets/kubeflow/trainer";
    /// File name and ConfigMap key of the CA certificate.
    pub const CA_FILE: &str = "ca.crt";
    /// File name of the token.
    pub const TOKEN_FILE: &str = "token";
    /// Lifetime of the token, in seconds.
    pub const TOKEN_SECS: i64 = 3600;
    /// Name suffix of the ConfigMap with the CA certificate.
    pub const CA_SUFFIX: &str = "-tls-config";
}
