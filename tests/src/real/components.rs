//! The programs of a real control plane, with the flags that the tests need.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Disk, GangSupport, TOKEN, audit, program};

/// CA of the API server's kubelet client certificate.
pub(super) const NODE_CA: &str = "node-authority.crt";
/// Front-proxy CA, client certificate and key of the API server.
pub(super) const FRONT_PROXY: [&str; 3] = ["front-proxy-authority.crt", "front-proxy.crt", "front-proxy.key"];
/// Feature gates of all gang scheduling fields, which the embedded server has as well.
const GATES: [&str; 4] = [
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
];
/// Names in our `--controllers`, and the corresponding upstream controllers.
const CONTROLLERS: [(&str, &str); 12] = [
    ("gc", "garbage-collector-controller"),
    ("namespace", "namespace-controller"),
    // The embedded server counts ResourceQuota usage at admission.
    ("job", "job-controller,ttl-after-finished-controller,resourcequota-controller"),
    ("serviceaccount", "serviceaccount-controller"),
    ("podgc", "pod-garbage-collector-controller"),
    ("endpointslice", "endpointslice-controller"),
    (
        "volume",
        "persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,\
         persistentvolume-protection-controller,ephemeral-volume-controller",
    ),
    ("resourceclaim", "resourceclaim-controller"),
    ("node", "node-lifecycle-controller,taint-eviction-controller"),
    ("podgroup", "podgroup-protection-controller"),
    // The embedded server has complete aggregated roles from the start.
    ("role", "clusterrole-aggregation-controller"),
    // The embedded server has none: this is for the Deployments of upstream's controllers and of our operator.
    ("deployment", "deployment-controller,replicaset-controller"),
];

/// Returns the feature gate flags of a component.
pub(super) fn gates(gangs: GangSupport) -> Vec<String> {
    match gangs {
        GangSupport::Native | GangSupport::AllFields => {
            vec!["--feature-gates=GenericWorkload=true".to_owned()]
        }
        GangSupport::Absent => Vec::new(),
    }
}

/// Returns the feature gate flags of the API server.
fn apiserver_gates(gangs: GangSupport) -> Vec<String> {
    match gangs {
        GangSupport::AllFields => {
            vec![format!("--feature-gates={}", GATES.map(|gate| format!("{gate}=true")).join(","))]
        }
        GangSupport::Native | GangSupport::Absent => gates(gangs),
    }
}

pub(super) fn etcd(folder: &Path, client: u16, peer: u16, disk: Disk) -> Result<Child, String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new(program("etcd")?);
    if disk == Disk::Unsynced {
        command.arg("--unsafe-no-fsync");
    }
    spawn(command.args([
        "--data-dir",
        &folder.join("etcd").display().to_string(),
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &format!("default={peer}"),
        "--log-level",
        "error",
    ]))
}

/// Issues a client certificate with this common name from a new CA; returns the paths of certificate and key.
fn client(
    folder: &Path,
    name: &str,
    files: [&str; 3],
) -> Result<(String, String), Box<dyn std::error::Error>> {
    let authority_key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(Vec::new())?;
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key)?.pem();
    write(folder, files[0], &authority)?;
    let issuer = rcgen::Issuer::from_ca_cert_pem(&authority, authority_key)?;
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    let path = write(folder, files[1], &certificate)?;
    Ok((path, write(folder, files[2], &key.serialize_pem())?))
}

/// Returns the aggregation flags: the front-proxy client certificate and the request headers with the user.
fn front_proxy(folder: &Path) -> Result<Vec<String>, String> {
    let (certificate, key) = client(folder, "front-proxy-client", FRONT_PROXY).map_err(|e| e.to_string())?;
    Ok(vec![
        format!("--proxy-client-cert-file={certificate}"),
        format!("--proxy-client-key-file={key}"),
        format!("--requestheader-client-ca-file={}", folder.join(FRONT_PROXY[0]).display()),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ])
}

/// Returns the private and public key of ServiceAccount tokens. They are created once, so that a restarted server accepts its tokens.
fn account_keys(folder: &Path) -> Result<(String, String), String> {
    let [key, public] = ["service-accounts.key", "service-accounts.pub"];
    if !folder.join(key).exists() {
        let made = rcgen::KeyPair::generate().map_err(|e| e.to_string())?;
        write(folder, public, &made.public_key_pem())?;
        write(folder, key, &made.serialize_pem())?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    Ok((path(key), path(public)))
}

pub(super) fn apiserver(folder: &Path, etcd: u16, secure: u16, gangs: GangSupport) -> Result<Child, String> {
    let (key, public) = account_keys(folder)?;
    let tokens = write(folder, "tokens.csv", &format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
    let native = (gangs != GangSupport::Absent).then_some("scheduling.k8s.io/v1beta1");
    let versions = native.into_iter().chain(["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"]);
    let versions: Vec<String> = versions.map(|v| format!("{v}=true")).collect();
    let files = [NODE_CA, "node-client.crt", "node-client.key"];
    let (node_certificate, node_key) = client(folder, "kube-apiserver", files).map_err(|e| e.to_string())?;
    spawn(
        Command::new(program("kube-apiserver")?)
            .arg(format!("--kubelet-client-certificate={node_certificate}"))
            .arg(format!("--kubelet-client-key={node_key}"))
            .arg("--kubelet-preferred-address-types=InternalIP")
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={secure}"))
            .arg(format!("--cert-dir={}", folder.join("certs").display()))
            .arg(format!("--service-account-key-file={public}"))
            .arg(format!("--service-account-signing-key-file={key}"))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.96.0.0/16")
            // Installers set it; the default rejects privileged containers.
            .arg("--allow-privileged=true")
            .arg(format!("--token-auth-file={tokens}"))
            .arg("--authorization-mode=RBAC")
            .args(apiserver_gates(gangs))
            .arg(format!("--runtime-config={}", versions.join(",")))
            // The embedded server leaves the token volume to the kubelet, see the spec of admission.
            .arg("--disable-admission-plugins=ServiceAccount")
            // With it, `blockOwnerDeletion` needs a permission, which the RBAC comparison covers.
            .arg("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
            .args(front_proxy(folder)?)
            .args(audit::flags(folder)?),
    )
}

/// Returns the upstream controllers for one of our names.
pub(super) fn controller(name: &str) -> Result<&'static str, String> {
    let found = CONTROLLERS.iter().find(|(ours, _)| *ours == name);
    found.map(|(_, real)| *real).ok_or_else(|| format!("upstream has no controller for our {name}"))
}

/// Builds the command of a component that connects to the API server.
pub(super) fn component(name: &str, kubeconfig: &str) -> Result<Command, String> {
    let mut command = Command::new(program(name)?);
    command
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        .arg("--leader-elect=false")
        // No test calls it, and a port conflict would make it exit unnoticed.
        .arg("--secure-port=0")
        // Its default rate limits would delay events.
        .args(["--kube-api-qps=2000", "--kube-api-burst=2000"]);
    Ok(command)
}

pub(super) fn kubeconfig(base: &str) -> String {
    kubeconfig_with_token(base, TOKEN)
}

pub(super) fn kubeconfig_with_token(base: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
         clusters: [{{name: real, cluster: {{server: '{base}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: user, user: {{token: {token}}}}}]\n\
         contexts: [{{name: real, context: {{cluster: real, user: user}}}}]\n"
    )
}

pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<String, String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.display().to_string())
}

pub(super) fn spawn(command: &mut Command) -> Result<Child, String> {
    let program = command.get_program().to_owned();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|e| format!("{}: {e}", program.display()))
}
