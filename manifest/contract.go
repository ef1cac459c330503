package manifest

import (
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// TaskManifest is the contract, version 0.2.0 (section 5). Its digest is the
// digest of its payload, without the signatures (S8).
type TaskManifest struct {
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	TaskID          TaskID         `json:"taskId"`
	ParentTaskID    *TaskID        `json:"parentTaskId,omitempty"`
	CreatedAt       signing.Time   `json:"createdAt"`
	Deadline        signing.Time   `json:"deadline"`
	Requester       Party          `json:"requester"`
	Worker          *Party         `json:"worker,omitempty"`
	Task            Work           `json:"task"`
	IO              IO             `json:"io"`
	Verification    Verification   `json:"verification"`
	Budget          Budget         `json:"budget"`
	Permissions     Permissions    `json:"permissions"`
	SandboxPolicy   SandboxPolicy  `json:"sandboxPolicy"`
	HITLPolicy      HITLPolicy     `json:"hitlPolicy"`
	Signatures      *SignaturePair `json:"signatures,omitempty"`
}

type Party struct {
	OwnerDid      signing.DID `json:"ownerDid"`
	AgentDid      signing.DID `json:"agentDid"`
	DisplayName   string      `json:"displayName,omitempty" rule:"len=1..100"`
	RelayEndpoint string      `json:"relayEndpoint,omitempty" rule:"len=1..196608"` // a URI; display only (R3)
}

type Work struct {
	SkillID            string      `json:"skillId,omitempty" rule:"len=1..196608"`
	TaskType           string      `json:"taskType,omitempty" rule:"len=1..196608"`
	Title              string      `json:"title" rule:"len=1..200"`
	Description        string      `json:"description" rule:"len=1..32768"`
	AcceptanceCriteria []Criterion `json:"acceptanceCriteria" rule:"items=1..50"`
}

type Criterion struct {
	ID          CriterionID `json:"id"`
	Description string      `json:"description" rule:"len=1..1000"`
	Required    bool        `json:"required"`
}

// IO holds two schemas of a stranger (M5) and the files that come along (M3, M12).
type IO struct {
	InputSchema    jcs.Value     `json:"inputSchema" rule:"object"`
	OutputSchema   jcs.Value     `json:"outputSchema" rule:"object"`
	InputArtifacts []ArtifactRef `json:"inputArtifacts,omitempty" rule:"items=0..100"`
}

type ArtifactRef struct {
	Name      string         `json:"name"` // M3
	Digest    signing.Digest `json:"digest"`
	MediaType string         `json:"mediaType" rule:"len=0..128"`
	SizeBytes int64          `json:"sizeBytes" rule:"num=0..1073741824"`
}

type Verification struct {
	Mode                        string  `json:"mode" rule:"enum=schema_only|automated_checks|human_in_the_loop|hybrid"`
	RequireUsageReceipt         bool    `json:"requireUsageReceipt"`
	RequireExecutionAttestation bool    `json:"requireExecutionAttestation"`
	MaxRetries                  int64   `json:"maxRetries" rule:"num=0..10"`
	Checks                      []Check `json:"checks,omitempty" rule:"items=0..20"`
}

type Check struct {
	CheckID          CheckID `json:"checkId"`
	Kind             string  `json:"kind" rule:"enum=json_schema|sha256_match|deterministic_command|human_review"`
	Target           string  `json:"target" rule:"len=1..512"`
	ExpectedExitCode *int64  `json:"expectedExitCode,omitempty"`
}

type Budget struct {
	CostBearer          string    `json:"costBearer" rule:"enum=worker_byok|bilateral_quota|external_settlement_plugin"`
	MaxInputTokens      int64     `json:"maxInputTokens" rule:"num=0..100000000"`
	MaxOutputTokens     int64     `json:"maxOutputTokens" rule:"num=0..100000000"`
	MaxToolInvocations  int64     `json:"maxToolInvocations" rule:"num=0..100000"`
	MaxWallClockSeconds int64     `json:"maxWallClockSeconds" rule:"num=1..604800"`
	OnOverrun           string    `json:"onOverrun" rule:"enum=hard_stop|request_hitl_amendment"`
	SettlementExtension jcs.Value `json:"settlementExtension,omitempty" rule:"object"`
}

// Limits are the budget's four meters.
func (b Budget) Limits() Meters {
	return Meters{b.MaxInputTokens, b.MaxOutputTokens, b.MaxToolInvocations, b.MaxWallClockSeconds}
}

type Permissions struct {
	MaxDelegationDepth  int64   `json:"maxDelegationDepth" rule:"num=0..5"`
	GrantedCapabilities []Grant `json:"grantedCapabilities" rule:"items=0..50"`
}

type Grant struct {
	CapabilityID   CapabilityID `json:"capabilityId"`
	Resource       string       `json:"resource" rule:"len=1..512"`
	AllowedTools   []string     `json:"allowedTools" rule:"items=1..50,each.len=1..128"`
	ArgConstraints jcs.Value    `json:"argConstraints,omitempty" rule:"object"`
	MaxInvocations int64        `json:"maxInvocations" rule:"num=1..10000"`
	ExpiresAt      signing.Time `json:"expiresAt"`
}

type SandboxPolicy struct {
	AllowSubprocessFallback *bool    `json:"allowSubprocessFallback,omitempty"`
	IsolationLevel          string   `json:"isolationLevel" rule:"enum=subprocess_restricted|oci_container|wasm|microvm"`
	NetworkAccess           string   `json:"networkAccess" rule:"enum=none|allowlist_only"`
	AllowedHosts            []string `json:"allowedHosts,omitempty" rule:"each.len=1..253"`
	FilesystemScope         string   `json:"filesystemScope" rule:"enum=ephemeral_workspace_only|read_only_inputs"`
}

type HITLPolicy struct {
	RequiredGates []Gate `json:"requiredGates" rule:"unique,each.enum=GATE_CONTRACT_ACCEPT|GATE_EXTERNAL_SIDE_EFFECT|GATE_BUDGET_OVERRUN|GATE_SUB_DELEGATION|GATE_DELIVERY_ACCEPT"`
}

// Names says whether the contract names the gate.
func (h HITLPolicy) Names(g Gate) bool {
	for _, have := range h.RequiredGates {
		if have == g {
			return true
		}
	}
	return false
}

type SignaturePair struct {
	RequesterSignature *signing.Block `json:"requesterSignature,omitempty"`
	WorkerSignature    *signing.Block `json:"workerSignature,omitempty"`
}

// Meters are the four things that a budget counts (section 8).
type Meters struct {
	InputTokens      int64 `json:"inputTokens" rule:"num=0..100000000"`
	OutputTokens     int64 `json:"outputTokens" rule:"num=0..100000000"`
	ToolInvocations  int64 `json:"toolInvocations" rule:"num=0..100000"`
	WallClockSeconds int64 `json:"wallClockSeconds" rule:"num=0..604800"`
}
