{{/*
The spec of a pod: (dict "root" $ "services" (list "router")). Settings of services.* are those of the
first service.
*/}}
{{- define "svc.podSpec" -}}
{{- $root := .root -}}
{{- $v := $root.Values -}}
{{- $services := .services -}}
{{- $name := first $services -}}
{{- $program := include "svc.program" $services -}}
{{- $own := get $v.services $name -}}
{{- $table := include "svc.table" $root | fromYaml -}}
{{- $hub := has "provider-hub" $services -}}
{{- /* Others call a certain replica of these, by its address. */ -}}
{{- $addressed := or $hub (has "billing-ledger" $services) -}}
{{- $database := "" -}}
{{- $bus := false -}}
{{- $called := false -}}
{{- range $services -}}
{{- $says := get $table . -}}
{{- if $says.database -}}{{- $database = . -}}{{- end -}}
{{- $bus = or $bus $says.bus -}}
{{- $called = or $called (gt (len $says.callers) 0) -}}
{{- end -}}
{{- $secrets := include "svc.secretSettings" . | fromYaml -}}
automountServiceAccountToken: false
{{- with $own.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
# The variables that Kubernetes makes of Services are of no use here.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "svc.grace" . }}
securityContext:
  {{- include "svc.podSecurityContext" $root | nindent 2 }}
{{- with $v.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range $key, $when := dict "kubernetes.io/hostname" $v.topologySpread.nodes "topology.kubernetes.io/zone" $v.topologySpread.zones }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $when }}
    labelSelector:
      matchLabels:
        {{- include "svc.serviceSelector" (dict "root" $root "name" $name) | nindent 8 }}
  {{- end }}
containers:
  - name: {{ $program }}
    image: {{ include "svc.image" (dict "root" $root "name" $program) | quote }}
    imagePullPolicy: {{ $v.images.pullPolicy }}
    {{- if gt (len $services) 1 }}
    args: ["-services", {{ join "," $services | quote }}, "-config", "/etc/svc/config/config.yaml"]
    {{- else }}
    args: ["-config", "/etc/svc/config/config.yaml"]
    {{- end }}
    {{- if or $addressed $database $own.env }}
    env:
      {{- if $addressed }}
      - name: POD_IP
        valueFrom:
          fieldRef:
            fieldPath: status.podIP
      - name: SVC_GRPC_ADVERTISE
        value: {{ $v.ipv6 | ternary "[$(POD_IP)]:9000" "$(POD_IP):9000" | quote }}
      {{- end }}
      {{- if $hub }}
      - name: HUB_INDEX
        valueFrom:
          fieldRef:
            fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
      - name: SVC_HUB_ID
        value: hub-$(HUB_INDEX)
      - name: SVC_TLS_CERT
        value: /etc/svc/tls/hub-$(HUB_INDEX)/tls.crt
      - name: SVC_TLS_KEY
        value: /etc/svc/tls/hub-$(HUB_INDEX)/tls.key
      - name: SVC_TLS_CA
        value: /etc/svc/tls/hub-$(HUB_INDEX)/ca.crt
      {{- end }}
      {{- if $database }}
      # The tools of the program read the environment alone.
      - name: DATABASE_URL
        value: file:/etc/svc/database/url
      {{- if $v.database.allowUnverified }}
      - name: SVC_DATABASE_ALLOW_UNVERIFIED
        value: "true"
      {{- end }}
      {{- end }}
      {{- if and $database $v.database.existingCASecret }}
      - name: PGSSLROOTCERT
        value: /etc/svc/database-ca/ca.crt
      {{- end }}
      {{- range $key, $value := $own.env }}
      - name: {{ $key }}
        value: {{ $value | quote }}
      {{- end }}
    {{- end }}
    ports:
      - {name: metrics, containerPort: 9090}
      {{- if $called }}
      - {name: grpc, containerPort: 9000}
      {{- end }}
      {{- if has "edge-gateway" $services }}
      - {name: http, containerPort: 8080}
      - {name: operator, containerPort: 8082}
      {{- end }}
      {{- if $hub }}
      - {name: websocket, containerPort: 8081}
      {{- end }}
    # A start waits up to a minute for the schema, and for NATS.
    startupProbe:
      httpGet: {path: /healthz, port: metrics}
      periodSeconds: 2
      failureThreshold: 90
    livenessProbe:
      httpGet: {path: /healthz, port: metrics}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: /readyz, port: metrics}
      periodSeconds: 2
      timeoutSeconds: 6
      failureThreshold: 1
    resources:
      {{- toYaml $own.resources | nindent 6 }}
    securityContext:
      {{- include "svc.securityContext" $root | nindent 6 }}
    volumeMounts:
      - {name: config, mountPath: /etc/svc/config, readOnly: true}
      - {name: tls, mountPath: /etc/svc/tls, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      {{- if $secrets }}
      - {name: secrets, mountPath: /etc/svc/secrets, readOnly: true}
      {{- end }}
      {{- if $database }}
      - {name: database, mountPath: /etc/svc/database, readOnly: true}
      {{- if $v.database.existingCASecret }}
      - {name: database-ca, mountPath: /etc/svc/database-ca, readOnly: true}
      {{- end }}
      {{- end }}
      {{- if and $bus $v.nats.existingSecret }}
      - {name: nats, mountPath: /etc/svc/nats, readOnly: true}
      {{- end }}
      {{- if $hub }}
      - {name: journal, mountPath: /var/lib/svc/journal}
      {{- else if eq $name "verifier" }}
      - {name: sealed, mountPath: /etc/svc/sealed, readOnly: true}
      {{- end }}
      {{- range $own.extraSecrets }}
      - {name: {{ printf "extra-%s" .existingSecret | trunc 63 }}, mountPath: {{ .mountPath }}, readOnly: true}
      {{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "svc.fullname" $root }}-{{ $name }}
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
  {{- if $hub }}
  # Each hub has a certificate of its own, and its index says which one it uses.
  - name: tls
    projected:
      defaultMode: 0440
      sources:
        {{- range $index := until (include "svc.maxHubs" $root | int) }}
        - secret:
            name: {{ include "svc.hubSecret" (dict "root" $root "index" $index) }}
            items:
              - {key: tls.crt, path: hub-{{ $index }}/tls.crt}
              - {key: tls.key, path: hub-{{ $index }}/tls.key}
              - {key: ca.crt, path: hub-{{ $index }}/ca.crt}
        {{- end }}
  {{- else }}
  - name: tls
    secret:
      secretName: {{ include "svc.tlsSecret" (dict "root" $root "name" $name) }}
      defaultMode: 0440
  {{- end }}
  {{- if $secrets }}
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        {{- range $path, $secret := $secrets }}
        - secret:
            name: {{ $secret.existingSecret }}
            items:
              - {key: {{ $secret.key }}, path: {{ $path }}}
        {{- end }}
  {{- end }}
  {{- if $database }}
  - name: database
    secret:
      secretName: {{ get $v.database.existingSecrets $database }}
      defaultMode: 0440
      items:
        - {key: {{ $v.database.urlKey }}, path: url}
  {{- if $v.database.existingCASecret }}
  - name: database-ca
    secret:
      secretName: {{ $v.database.existingCASecret }}
      items:
        - {key: ca.crt, path: ca.crt}
  {{- end }}
  {{- end }}
  {{- if and $bus $v.nats.existingSecret }}
  - name: nats
    secret:
      secretName: {{ $v.nats.existingSecret }}
      defaultMode: 0440
      items:
        - {key: {{ $v.nats.urlKey }}, path: url}
  {{- end }}
  {{- if eq $name "verifier" }}
  - name: sealed
    secret:
      secretName: {{ $v.verifierSealed.existingSecret }}
      defaultMode: 0440
      items:
        - {key: {{ $v.verifierSealed.key }}, path: sealed.json}
  {{- end }}
  {{- range $own.extraSecrets }}
  - name: {{ printf "extra-%s" .existingSecret | trunc 63 }}
    secret:
      secretName: {{ .existingSecret }}
      defaultMode: 0440
  {{- end }}
{{- end -}}
