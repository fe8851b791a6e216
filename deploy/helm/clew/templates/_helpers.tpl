{{- define "clew.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "clew.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "clew.labels" -}}
{{ include "clew.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "clew.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "clew.check" -}}
{{- if not (or .Values.keysSecret .Values.jwt.jwks) }}
{{- fail "Set keysSecret, or jwt: servers that other machines can reach require keys. See values.yaml." }}
{{- end }}
{{- if and .Values.jwt.jwks (not (and .Values.jwt.issuer .Values.jwt.audience)) }}
{{- fail "Set jwt.issuer and jwt.audience together with jwt.jwks." }}
{{- end }}
{{- if and .Values.index.url (not .Values.lake.url) (gt (int .Values.api.replicas) 0) }}
{{- fail "Set lake.url with index.url: pods of the API cannot read a lake on the volume of the pipeline. Or set api.replicas to 0." }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "Set ingress.host." }}
{{- end }}
{{- end }}

{{- define "clew.env" -}}
env:
  - name: CLEW_HOME
    value: /data
  {{- if .Values.lake.url }}
  - name: CLEW_LAKE
    value: {{ .Values.lake.url | quote }}
  {{- end }}
  {{- if .Values.index.url }}
  - name: CLEW_INDEX
    value: {{ .Values.index.url | quote }}
  {{- end }}
  {{- range $name, $value := .Values.env }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
{{- if .Values.envSecret }}
envFrom:
  - secretRef:
      name: {{ .Values.envSecret }}
{{- end }}
{{- end }}

{{- define "clew.serverArgs" -}}
- --host=0.0.0.0
- --port=5000
{{- range .Values.allowedHosts }}
- --allowed-host={{ . }}
{{- end }}
{{- if .Values.ingress.enabled }}
- --allowed-host={{ .Values.ingress.host }}
{{- end }}
{{- if .Values.jwt.jwks }}
- --jwks={{ .Values.jwt.jwks }}
- --jwt-issuer={{ .Values.jwt.issuer }}
- --jwt-audience={{ .Values.jwt.audience }}
{{- end }}
{{- end }}

{{- define "clew.sparkArgs" -}}
- --master={{ .Values.pipeline.master }}
{{- range $key, $value := .Values.pipeline.conf }}
- --conf={{ $key }}={{ $value }}
{{- end }}
{{- end }}

{{- define "clew.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "clew.podSecurity" -}}
automountServiceAccountToken: {{ hasPrefix "k8s://" .Values.pipeline.master }}
serviceAccountName: {{ .Values.serviceAccount.name | default (include "clew.name" .) }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "clew.mounts" -}}
volumeMounts:
  - name: data
    mountPath: /data
  - name: temporary
    mountPath: /tmp
  - name: home
    mountPath: /home/clew
  {{- if .Values.keysSecret }}
  - name: keys
    mountPath: /data/keys.json
    subPath: keys.json
    readOnly: true
  {{- end }}
{{- end }}

{{- define "clew.volumes" -}}
- name: temporary
  emptyDir: {}
- name: home
  emptyDir: {}
{{- if .Values.keysSecret }}
- name: keys
  secret:
    secretName: {{ .Values.keysSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "clew.httpProbes" -}}
ports:
  - name: {{ .name }}
    containerPort: {{ .port }}
startupProbe:
  httpGet: {path: /healthz, port: {{ .name }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ .name }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .name }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
