{{/* Labels of this chart's objects: of a name, in a chart. Those of the official chart are its own. */}}
{{- define "tunnel.labels" -}}
{{- with last . -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{ include "tunnel.selector" . }}
{{- end }}

{{/* What selects the pods of that name. */}}
{{- define "tunnel.selector" -}}
app.kubernetes.io/name: {{ first . }}
app.kubernetes.io/instance: {{ (last .).Release.Name }}
{{- end }}

{{/* Where the official chart puts its objects. */}}
{{- define "tunnel.namespace" -}}
{{ include "external-dns.namespace" (index .Subcharts "external-dns") }}
{{- end }}

{{- define "tunnel.secret" -}}
{{ .Values.existingSecret | default "cloudflare" }}
{{- end }}
