//! The schemas of the built-in kinds, as far as field ownership and refusals depend on them.
//!
//! A list is merged as a whole, unless its schema names the keys of its items.

use serde_json::{Map, Value};

/// Types of objects and their fields. `int`, `num`, `str`, `bool`, `intstr` and `quantity` are scalars, `map` is a map of
/// strings, `any` is kept as it is, `X!` is replaced as a whole, `[X]` a list that is replaced as a whole, `{str}` a set,
/// `[X]k,l` a list whose items are merged by the keys `k` and `l`. A `?` marks a struct that may be absent.
#[rustfmt::skip]
const TYPES: &[(&str, &str)] = &[
    ("ObjectMeta", "name:str generateName:str namespace:str selfLink:str uid:str resourceVersion:str generation:int \
        creationTimestamp:str deletionTimestamp:str deletionGracePeriodSeconds:int labels:map annotations:map \
        ownerReferences:[any]uid finalizers:{str} managedFields:[any]"),
    ("ConfigMap", "data:map binaryData:map immutable:bool"),
    ("Secret", "data:map stringData:map type:str immutable:bool"),
    ("ServiceAccount", "secrets:[any]name imagePullSecrets:[any] automountServiceAccountToken:bool"),
    ("Namespace", "spec:NamespaceSpec status:NamespaceStatus"),
    ("NamespaceSpec", "finalizers:[str]"),
    ("NamespaceStatus", "phase:str conditions:[any]type"),
    ("Event", "involvedObject:any! reason:str message:str source:any count:int firstTimestamp:str lastTimestamp:str \
        type:str action:str related:any! reportingComponent:str reportingInstance:str eventTime:str series:any"),
    ("Service", "spec:ServiceSpec status:any"),
    ("ServiceSpec", "ports:[ServicePort]port,protocol selector:map! clusterIP:str clusterIPs:[str] type:str \
        externalIPs:[str] sessionAffinity:str loadBalancerIP:str loadBalancerSourceRanges:[str] externalName:str \
        externalTrafficPolicy:str healthCheckNodePort:int publishNotReadyAddresses:bool sessionAffinityConfig:any \
        ipFamilies:[str] ipFamilyPolicy:str allocateLoadBalancerNodePorts:bool loadBalancerClass:str \
        internalTrafficPolicy:str trafficDistribution:str"),
    ("ServicePort", "name:str protocol:str appProtocol:str port:int targetPort:intstr nodePort:int"),
    ("Role", "rules:[any]"),
    ("RoleBinding", "subjects:[any] roleRef:any!"),
    ("ClusterRole", "rules:[any] aggregationRule:any"),
    ("ClusterRoleBinding", "subjects:[any] roleRef:any!"),
    ("CustomResourceDefinition", "spec:any status:any"),
    ("Deployment", "spec:DeploymentSpec status:DeploymentStatus"),
    ("DeploymentSpec", "replicas:int selector:any! template:PodTemplateSpec strategy:DeploymentStrategy \
        minReadySeconds:int revisionHistoryLimit:int paused:bool progressDeadlineSeconds:int"),
    ("DeploymentStrategy", "type:str rollingUpdate:RollingUpdate?"),
    ("RollingUpdate", "maxUnavailable:intstr maxSurge:intstr"),
    ("DeploymentStatus", "observedGeneration:int replicas:int updatedReplicas:int readyReplicas:int \
        availableReplicas:int unavailableReplicas:int terminatingReplicas:int collisionCount:int conditions:[any]type"),
    ("ReplicaSet", "spec:ReplicaSetSpec status:ReplicaSetStatus"),
    ("ReplicaSetSpec", "replicas:int minReadySeconds:int selector:any! template:PodTemplateSpec"),
    ("ReplicaSetStatus", "replicas:int fullyLabeledReplicas:int readyReplicas:int availableReplicas:int \
        terminatingReplicas:int observedGeneration:int conditions:[any]type"),
    ("Job", "spec:JobSpec status:JobStatus"),
    ("JobSpec", "parallelism:int completions:int activeDeadlineSeconds:int podFailurePolicy:any successPolicy:any \
        backoffLimit:int backoffLimitPerIndex:int maxFailedIndexes:int selector:any! manualSelector:bool \
        template:PodTemplateSpec ttlSecondsAfterFinished:int completionMode:str suspend:bool podReplacementPolicy:str \
        managedBy:str"),
    ("JobStatus", "conditions:[any]type startTime:str completionTime:str active:int succeeded:int failed:int \
        terminating:int completedIndexes:str failedIndexes:str uncountedTerminatedPods:any ready:int"),
    ("Pod", "spec:PodSpec status:any"),
    ("PodTemplateSpec", "metadata:ObjectMeta spec:PodSpec"),
    ("PodSpec", "volumes:[Volume]name initContainers:[Container]name containers:[Container]name \
        ephemeralContainers:[any]name restartPolicy:str terminationGracePeriodSeconds:int activeDeadlineSeconds:int \
        dnsPolicy:str nodeSelector:map! serviceAccountName:str serviceAccount:str automountServiceAccountToken:bool \
        nodeName:str hostNetwork:bool hostPID:bool hostIPC:bool shareProcessNamespace:bool securityContext:any? \
        imagePullSecrets:[any]name hostname:str subdomain:str affinity:any schedulerName:str tolerations:[any] \
        hostAliases:[any]ip priorityClassName:str priority:int dnsConfig:any readinessGates:[any] runtimeClassName:str \
        enableServiceLinks:bool preemptionPolicy:str overhead:map topologySpreadConstraints:[any]topologyKey,whenUnsatisfiable \
        setHostnameAsFQDN:bool os:any hostUsers:bool schedulingGates:[any]name resourceClaims:[any]name resources:any \
        hostnameOverride:str"),
    ("Container", "name:str image:str command:[str] args:[str] workingDir:str ports:[ContainerPort]containerPort,protocol \
        envFrom:[any] env:[EnvVar]name resources:Resources resizePolicy:[any] restartPolicy:str restartPolicyRules:[any] \
        volumeMounts:[VolumeMount]mountPath volumeDevices:[any]devicePath livenessProbe:any readinessProbe:any \
        startupProbe:any lifecycle:any terminationMessagePath:str terminationMessagePolicy:str imagePullPolicy:str \
        securityContext:any? stdin:bool stdinOnce:bool tty:bool"),
    ("ContainerPort", "name:str hostPort:int containerPort:int protocol:str hostIP:str"),
    ("EnvVar", "name:str value:str valueFrom:EnvVarSource?"),
    ("EnvVarSource", "fieldRef:any! resourceFieldRef:any! configMapKeyRef:any! secretKeyRef:any! fileKeyRef:any!"),
    ("Resources", "limits:quantities requests:quantities claims:[any]name"),
    ("VolumeMount", "name:str readOnly:bool recursiveReadOnly:str mountPath:str subPath:str mountPropagation:str subPathExpr:str"),
    ("Volume", "name:str hostPath:any emptyDir:any secret:any configMap:any projected:any downwardAPI:any csi:any nfs:any \
        persistentVolumeClaim:any ephemeral:any iscsi:any fc:any image:any gcePersistentDisk:any awsElasticBlockStore:any \
        azureDisk:any azureFile:any cephfs:any rbd:any cinder:any glusterfs:any gitRepo:any flexVolume:any flocker:any \
        quobyte:any vsphereVolume:any photonPersistentDisk:any portworxVolume:any scaleIO:any storageos:any"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A struct of the table.
    Struct(&'static str),
    /// A whole object of a built-in kind.
    Object(&'static str),
    /// A whole object of a kind that a CustomResourceDefinition added.
    Custom,
    /// Anything; maps are merged and lists replaced.
    Any,
    /// A value that is replaced as a whole.
    Atomic,
    Map(&'static str),
    Set,
    Keyed(&'static str, &'static str),
    Scalar(&'static str),
}

/// Fields that every object has.
const EVERY: &[(&str, Type)] = &[
    ("apiVersion", Type::Scalar("str")),
    ("kind", Type::Scalar("str")),
    ("metadata", Type::Struct("ObjectMeta")),
];

impl Type {
    /// Returns the type of the objects of a built-in kind.
    pub(super) fn of(kind: &str) -> Self {
        TYPES.iter().find(|(name, _)| *name == kind).map_or(Self::Custom, |(name, _)| Self::Object(name))
    }

    fn parse(text: &'static str) -> Self {
        if text.ends_with('!') {
            return Self::Atomic;
        }
        let text = text.trim_end_matches('?');
        if let Some(list) = text.strip_prefix('[') {
            let (item, keys) = list.split_once(']').unwrap_or((list, ""));
            return if keys.is_empty() { Self::Atomic } else { Self::Keyed(item, keys) };
        }
        match text {
            "any" => Self::Any,
            "map" => Self::Map("str"),
            "quantities" => Self::Map("quantity"),
            "{str}" => Self::Set,
            "int" | "num" | "str" | "bool" | "intstr" | "quantity" => Self::Scalar(text),
            _ => Self::Struct(text),
        }
    }

    /// Returns the text of a field's type in the table.
    fn text(name: &str, field: &str) -> Option<&'static str> {
        let (_, fields) = TYPES.iter().find(|(known, _)| *known == name)?;
        fields
            .split_whitespace()
            .find_map(|entry| entry.split_once(':').filter(|(name, _)| *name == field))
            .map(|(_, text)| text)
    }

    /// Returns the type of a field of a struct, or of an entry of a map; nothing when it is not declared.
    pub(super) fn field(self, field: &str) -> Option<Self> {
        let common = || EVERY.iter().find(|(name, _)| *name == field).map(|(_, known)| *known);
        match self {
            Self::Object(name) => common().or_else(|| Self::text(name, field).map(Self::parse)),
            Self::Custom => common().or(Some(Self::Any)),
            Self::Struct(name) => Self::text(name, field).map(Self::parse),
            Self::Any => Some(Self::Any),
            Self::Map(value) => Some(Self::Scalar(value)),
            Self::Keyed(..) | Self::Set | Self::Atomic | Self::Scalar(_) => None,
        }
    }

    /// Returns the type of the items of a keyed list.
    pub(super) fn item(self) -> Self {
        if let Self::Keyed(item, _) = self { Self::parse(item) } else { Self::Any }
    }

    /// Returns whether the server remembers that the field itself is there, apart from its content.
    pub(super) fn is_remembered(self, field: &str) -> bool {
        match self {
            // A list without which a pod is none, so that its type has it always.
            Self::Keyed(..) => field != "containers",
            Self::Map(_) | Self::Set => true,
            Self::Struct(name) => name == "RollingUpdate" || name == "EnvVarSource",
            Self::Object(_) | Self::Custom | Self::Any | Self::Atomic | Self::Scalar(_) => false,
        }
    }

    /// Returns whether parts of the value have owners of their own.
    pub(super) fn is_split(self, value: &Value) -> bool {
        match self {
            Self::Struct(_) | Self::Object(_) | Self::Custom | Self::Any | Self::Map(_) => {
                value.as_object().is_some_and(|map| !map.is_empty())
            }
            Self::Keyed(..) | Self::Set => value.as_array().is_some_and(|list| !list.is_empty()),
            Self::Atomic | Self::Scalar(_) => false,
        }
    }

    /// Says the first thing about a value that the schema forbids.
    pub(super) fn refuse(self, path: &str, value: &Value) -> Option<String> {
        if value.is_null() {
            return None;
        }
        match self {
            Self::Struct(_) | Self::Object(_) | Self::Custom | Self::Map(_) => {
                let Some(map) = value.as_object() else { return Some(expected(path, "map", value)) };
                map.iter().find_map(|(name, value)| match self.field(name) {
                    None => Some(format!("{path}.{name}: field not declared in schema")),
                    Some(field) => field.refuse(&format!("{path}.{name}"), value),
                })
            }
            Self::Keyed(_, keys) => {
                let Some(list) = value.as_array() else { return Some(expected(path, "list", value)) };
                list.iter().enumerate().find_map(|(index, item)| {
                    let missing = keys.split(',').find(|key| item.get(key).or(default_key(key).as_ref()).is_none());
                    let missing = missing.map(|key| {
                        format!("{path}: element {index}: associative list with keys has an element that omits key field {key:?} (and doesn't have default value)")
                    });
                    missing.or_else(|| self.item().refuse(&format!("{path}[{}]", key_of(keys, item)), item))
                })
            }
            Self::Set if !value.is_array() => Some(expected(path, "list", value)),
            Self::Any | Self::Atomic | Self::Set => None,
            Self::Scalar(name) => {
                let (is_fine, word) = match name {
                    "int" | "num" => (value.is_number(), "numeric (int or float)"),
                    "bool" => (value.is_boolean(), "boolean"),
                    "str" => (value.is_string(), "string"),
                    _ => (value.is_string() || value.is_number(), "string or number"),
                };
                (!is_fine).then(|| expected(path, word, value))
            }
        }
    }
}

fn expected(path: &str, word: &str, value: &Value) -> String {
    let got = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    };
    format!("{path}: expected {word}, got {got}")
}

/// Keys that have a default may be left out.
fn default_key(key: &str) -> Option<Value> {
    (key == "protocol").then(|| "TCP".into())
}

/// Returns the key of an item, as field ownership writes it.
pub(super) fn key_of(keys: &str, item: &Value) -> String {
    let mut key = Map::new();
    let mut names: Vec<_> = keys.split(',').collect();
    names.sort_unstable();
    for name in names {
        let value = item.get(name).cloned().or_else(|| default_key(name)).unwrap_or_default();
        key.insert(name.to_owned(), value);
    }
    format!("k:{}", Value::Object(key))
}
