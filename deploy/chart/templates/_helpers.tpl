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

{{/* The settings of global.settings, a line for each. */}}
{{- define "tunnel.settings" -}}
{{- range $name, $value := .Values.global.settings }}
{{- if not (kindIs "invalid" $value) }}
{{ $name }}={{ include "tunnel.setting" $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* A value as it was typed: Helm has the numbers of a file as 2e+06. */}}
{{- define "tunnel.setting" -}}
{{ if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* The variables that the command `tunnel` reads, and no others: a mistake in another setting leaves cloudflared's pods alone.
Where the chart makes no Secret of global.settings, its owner has them. */}}
{{- define "tunnel.reads" -}}
^((CF|CLOUDFLARE)_.+|(EXCLUDE_)?DOMAIN_FILTERS?|REGEXP_DOMAIN_FILTER(_EXCLUSION)?|ZONE_ID_FILTER|DRY_RUN
{{- if not .Values.secretConfiguration.enabled }}|SETTINGS{{ end -}}
|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy)$
{{- end }}

{{/* The names among the values that are not known, a line for each. */}}
{{- define "tunnel.unknown" -}}
{{- range $name, $value := .values }}
{{- $path := printf "%s.%s" $.path $name }}
{{- $known := get $.known $name }}
{{- if not (hasKey $.known $name) }}
  {{ $path }}
{{- else if and $known (kindIs "map" $value) }}
{{- include "tunnel.unknown" (dict "path" $path "values" $value "known" $known) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tunnel.secret" -}}
{{ .Values.existingSecret | default "cloudflare" }}
{{- end }}
