{{/* The name of the release's objects, at most 30 characters, so that a hub's pod has room. */}}
{{- define "svc.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 30 | trimSuffix "-" -}}
{{- else if contains "svc" .Release.Name -}}
{{- .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-svc" .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "svc.selectorLabels" -}}
app.kubernetes.io/name: svc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "svc.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "svc.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: svc
{{- end -}}

{{/* What the services say of themselves: files/callers.yaml by name. */}}
{{- define "svc.table" -}}
{{- $table := dict -}}
{{- range (.Files.Get "files/callers.yaml" | fromYaml).services -}}
{{- $_ := set $table .name . -}}
{{- end -}}
{{- toYaml $table -}}
{{- end -}}

{{/* The names of the services that are deployed. */}}
{{- define "svc.deployed" -}}
{{- $names := list -}}
{{- range .Values.pods -}}
{{- range .services -}}
{{- if has . $names -}}
{{- fail (printf "pods: %s stands in two pods" .) -}}
{{- end -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "names" $names) -}}
{{- end -}}

{{/* The program of a pod's services: that of the one service, or the program that runs several. */}}
{{- define "svc.program" -}}
{{- if gt (len .) 1 -}}standalone{{- else -}}{{ first . }}{{- end -}}
{{- end -}}

{{/* The services in the pods of the hub; none where there is no hub. */}}
{{- define "svc.hubServices" -}}
{{- $services := list -}}
{{- range .Values.pods -}}
{{- if has "provider-hub" .services -}}{{- $services = .services -}}{{- end -}}
{{- end -}}
{{- toYaml (dict "names" $services) -}}
{{- end -}}

{{/* Fails unless each service that is deployed finds the services that it calls. */}}
{{- define "svc.check" -}}
{{- $group := list "provider-hub" "router" "edge-gateway" -}}
{{- range .Values.pods -}}
{{- if and (gt (len .services) 1) (ne (join "," .services) (join "," $group)) -}}
{{- fail (printf "pods: %s has the services %s: several services of a pod must be %s, in this order" .name (join ", " .services) (join ", " $group)) -}}
{{- end -}}
{{- end -}}
{{- $table := include "svc.table" . | fromYaml -}}
{{- $deployed := (include "svc.deployed" . | fromYaml).names -}}
{{- range $name := $deployed -}}
{{- range (get $table $name).peers -}}
{{- if not (has . $deployed) -}}
{{- fail (printf "pods: %s calls %s, which is in no pod" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.pods -}}
{{- $name := first .services -}}
{{- $own := get $.Values.services $name -}}
{{- if and $own.autoscaling.enabled (lt (int $own.autoscaling.maxReplicas) (int $own.replicas)) -}}
{{- fail (printf "services.%s.autoscaling.maxReplicas: is below replicas" $name) -}}
{{- end -}}
{{- end -}}
{{- $hubServices := (include "svc.hubServices" . | fromYaml).names -}}
{{- range $name := $deployed -}}
{{- if (get $table $name).database -}}
{{- $_ := required (printf "database.existingSecrets.%s: is missing" $name) (get $.Values.database.existingSecrets $name) -}}
{{- end -}}
{{- if and (not $.Values.tls.certManager.enabled) (not (has $name $hubServices)) -}}
{{- $_ := required (printf "tls.existingSecrets.%s: is missing" $name) (get $.Values.tls.existingSecrets $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metricsFrom) -}}
{{- fail "networkPolicy.metricsFrom: is missing, and monitoring.serviceMonitor is enabled" -}}
{{- end -}}
{{- if and .Values.ipv6 .Values.networkPolicy.enabled (not .Values.networkPolicy.internetExceptIPv6) -}}
{{- fail "networkPolicy.internetExceptIPv6: is missing, and ipv6 is set" -}}
{{- end -}}
{{- if and .Values.nats.url .Values.nats.existingSecret -}}
{{- fail "nats: url and existingSecret are both set" -}}
{{- end -}}
{{- if not (or .Values.nats.url .Values.nats.existingSecret .Values.development.nats.enabled) -}}
{{- fail "nats.url: is missing, or nats.existingSecret, or development.nats.enabled" -}}
{{- end -}}
{{- end -}}

{{/* The most replicas that the hub may have; each has an identity of its own. */}}
{{- define "svc.maxHubs" -}}
{{- $hub := get .Values.services "provider-hub" -}}
{{- if $hub.autoscaling.enabled -}}{{ $hub.autoscaling.maxReplicas }}{{- else -}}{{ $hub.replicas }}{{- end -}}
{{- end -}}

{{/* The image of a program: (dict "root" $ "name" "router"). */}}
{{- define "svc.image" -}}
{{- $images := .root.Values.images -}}
{{- $digest := get $images.digests .name -}}
{{- if $digest -}}
{{- printf "%s/%s@%s" $images.registry .name $digest -}}
{{- else if $images.allowTag -}}
{{- printf "%s/%s:%s" $images.registry .name (required "images.tag: is missing" $images.tag) -}}
{{- else -}}
{{- fail (printf "images.digests.%s: is missing" .name) -}}
{{- end -}}
{{- end -}}

{{/* The selector of the pods with a service: (dict "root" $ "name" "router"). */}}
{{- define "svc.serviceSelector" -}}
{{ include "svc.selectorLabels" .root }}
svc.internal/{{ .name }}: "true"
{{- end -}}

{{- define "svc.tlsSecret" -}}
{{- $given := get .root.Values.tls.existingSecrets .name -}}
{{- if .root.Values.tls.certManager.enabled -}}
{{- printf "%s-%s-tls" (include "svc.fullname" .root) .name -}}
{{- else -}}
{{- required (printf "tls.existingSecrets.%s: is missing" .name) $given -}}
{{- end -}}
{{- end -}}

{{- define "svc.hubSecret" -}}
{{- if .root.Values.tls.certManager.enabled -}}
{{- printf "%s-hub-%d-tls" (include "svc.fullname" .root) .index -}}
{{- else if ge .index (len .root.Values.tls.existingHubSecrets) -}}
{{- fail (printf "tls.existingHubSecrets: has %d secrets, and hub-%d needs one" (len .root.Values.tls.existingHubSecrets) .index) -}}
{{- else -}}
{{- index .root.Values.tls.existingHubSecrets .index -}}
{{- end -}}
{{- end -}}

{{- define "svc.natsURL" -}}
{{- if .Values.nats.url -}}
{{- .Values.nats.url -}}
{{- else if .Values.development.nats.enabled -}}
{{- printf "tls://%s-nats.%s.svc.%s:4222" (include "svc.fullname" .) .Release.Namespace .Values.clusterDomain -}}
{{- end -}}
{{- end -}}

{{/*
The seconds after SIGTERM within which a program has stopped. pkg/node bounds each part: the
delay, each public listener (the gateway has two) with its margin, the hub's listener, each
service itself, gRPC, the listener of metrics, NATS and telemetry: (dict "root" $ "services" $list).
*/}}
{{- define "svc.grace" -}}
{{- $stop := .root.Files.Get "files/stop.yaml" | fromYaml -}}
{{- $drain := .root.Values.drain -}}
{{- $grace := add $drain.delaySeconds $stop.grpc $stop.admin $stop.bus $stop.telemetry -}}
{{- range .services -}}
{{- $grace = add $grace $stop.service -}}
{{- if eq . "edge-gateway" -}}
{{- $grace = add $grace (mul 2 (add $drain.timeoutSeconds $stop.margin)) -}}
{{- else if eq . "provider-hub" -}}
{{- $grace = add $grace 1 $stop.margin -}}
{{- end -}}
{{- end -}}
{{- $grace -}}
{{- end -}}

{{/* Puts a value at a dotted path: (dict "into" $map "path" "billing.card.stripe_key" "value" "x"). */}}
{{- define "svc.put" -}}
{{- $parts := splitList "." .path -}}
{{- $at := .into -}}
{{- range initial $parts -}}
{{- if not (hasKey $at .) -}}{{- $_ := set $at . dict -}}{{- end -}}
{{- $at = get $at . -}}
{{- end -}}
{{- $_ := set $at (last $parts) .value -}}
{{- end -}}

{{/*
The settings of a pod's services as their program reads them: (dict "root" $ "services" $list).
Several services have one file, in which each has its section.
*/}}
{{- define "svc.config" -}}
{{- $root := .root -}}
{{- $services := .services -}}
{{- $v := $root.Values -}}
{{- $table := include "svc.table" $root | fromYaml -}}
{{- $deployed := (include "svc.deployed" $root | fromYaml).names -}}
{{- $cfg := dict "admin_addr" (printf ":%d" 9090) "drain_delay" (printf "%ds" (int $v.drain.delaySeconds)) "drain_timeout" (printf "%ds" (int $v.drain.timeoutSeconds)) -}}
{{- $_ := set $cfg "log" (dict "level" $v.log.level "format" "json") -}}
{{- if $v.traces.otlpEndpoint -}}
{{- $_ := set $cfg "traces" (dict "otlp_endpoint" $v.traces.otlpEndpoint "otlp_insecure" $v.traces.otlpInsecure "ratio" $v.traces.ratio) -}}
{{- end -}}
{{- if not (has "provider-hub" $services) -}}
{{- $_ := set $cfg "tls" (dict "cert" "/etc/svc/tls/tls.crt" "key" "/etc/svc/tls/tls.key" "ca" "/etc/svc/tls/ca.crt") -}}
{{- end -}}
{{- if gt (len $services) 1 -}}
{{- $cfg = merge $cfg (dict "demo" "off" "data_dir" "/var/lib/svc/journal/data") -}}
{{- end -}}
{{- $peers := dict -}}
{{- range $name := $services -}}
{{- $own := get $table $name -}}
{{- if $own.callers -}}
{{- $_ := set $cfg "grpc_addr" ":9000" -}}
{{- end -}}
{{- range concat $own.peers $own.optional -}}
{{- if and (has . $deployed) (not (has . $services)) -}}
{{- $_ := set $peers . (list (printf "dns:///%s-%s-grpc.%s.svc.%s.:9000" (include "svc.fullname" $root) . $root.Release.Namespace $v.clusterDomain)) -}}
{{- end -}}
{{- end -}}
{{- if $own.bus -}}
{{- $_ := set $cfg "nats_replicas" (int $v.nats.replicas) -}}
{{- $_ := set $cfg "nats_url" (ternary "file:/etc/svc/nats/url" (include "svc.natsURL" $root) (not (empty $v.nats.existingSecret))) -}}
{{- end -}}
{{- if $own.database -}}
{{- $_ := set $cfg "database_url" "file:/etc/svc/database/url" -}}
{{- if $v.database.allowUnverified -}}{{- $_ := set $cfg "database_allow_unverified" true -}}{{- end -}}
{{- end -}}
{{- $cfg = merge $cfg (include "svc.section" (dict "root" $root "name" $name) | fromYaml) -}}
{{- end -}}
{{- if $peers -}}{{- $_ := set $cfg "peers" $peers -}}{{- end -}}
{{- range $name := $services -}}
{{- $cfg = mergeOverwrite $cfg (deepCopy (get $v.config $name)) -}}
{{- range $path, $secret := get $v.secretSettings $name -}}
{{- include "svc.put" (dict "into" $cfg "path" $path "value" (printf "file:/etc/svc/secrets/%s" $path)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $cfg -}}
{{- end -}}

{{/* What the chart writes into the section of a service: (dict "root" $ "name" "router"). */}}
{{- define "svc.section" -}}
{{- $v := .root.Values -}}
{{- $cfg := dict -}}
{{- if eq .name "edge-gateway" -}}
{{- $_ := set $cfg "gateway" (dict "http_addr" ":8080" "operator_addr" ":8082") -}}
{{- if $v.operator.hosts -}}{{- $_ := set $cfg.gateway "operator_hosts" (join "," $v.operator.hosts) -}}{{- end -}}
{{- else if eq .name "provider-hub" -}}
{{- $_ := set $cfg "hub" (dict "ws_addr" ":8081" "journal_dir" "/var/lib/svc/journal/hub" "pepper" "file:/etc/svc/secrets/hub.pepper") -}}
{{- with coalesce $v.gatewayAPI.providersHost $v.ingress.providersHost -}}
{{- $_ := set $cfg.hub "wallet_domain" . -}}
{{- end -}}
{{- else if eq .name "billing-ledger" -}}
{{- $_ := set $cfg "billing" (dict "pepper" "file:/etc/svc/secrets/billing.pepper" "card" (dict "sandbox_url" $v.publicURL "return_url" (printf "%s/" $v.publicURL)) "mail" (dict "site_url" $v.publicURL)) -}}
{{- else if eq .name "verifier" -}}
{{- $_ := set $cfg "verifier" (dict "sealed" "/etc/svc/sealed/sealed.json" "edge_url" $v.publicURL) -}}
{{- end -}}
{{- toYaml $cfg -}}
{{- end -}}

{{/* The settings of a pod's services that are files of secrets, by their path. */}}
{{- define "svc.secretSettings" -}}
{{- $root := .root -}}
{{- $all := dict -}}
{{- range .services -}}
{{- $all = merge $all (deepCopy (get $root.Values.secretSettings .)) -}}
{{- if eq . "provider-hub" -}}
{{- $_ := set $all "hub.pepper" $root.Values.pepper -}}
{{- else if eq . "billing-ledger" -}}
{{- $_ := set $all "billing.pepper" $root.Values.pepper -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "svc.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "svc.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A rule to a server: (dict "root" $ "where" .Values.networkPolicy.nats "inside" "nats"). */}}
{{- define "svc.egressTo" -}}
- ports:
    {{- range .where.ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- if .inside }}
  to:
    - podSelector:
        matchLabels:
          {{- include "svc.selectorLabels" .root | nindent 10 }}
          app.kubernetes.io/component: {{ .inside }}
  {{- else if .where.to }}
  to:
    {{- toYaml .where.to | nindent 4 }}
  {{- end }}
{{- end -}}
