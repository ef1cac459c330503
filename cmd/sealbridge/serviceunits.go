package main

import (
	"html"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// gatewayUnit is a systemd unit of the user. It is not locked in further: the
// agents' boxes need user namespaces and their own mounts.
func gatewayUnit(self, home string) string {
	return strings.Join([]string{
		"# " + writtenBy,
		"[Unit]",
		"Description=Sealbridge gateway (" + unitText(home) + ")",
		"After=network-online.target",
		"",
		"[Service]",
		"Type=notify",
		"ExecStart=" + unitWord(self) + " --home " + unitWord(home) + " serve",
		"Restart=on-failure",
		"RestartSec=5",
		"UMask=0077",
		"NoNewPrivileges=yes",
		"",
		"[Install]",
		"WantedBy=default.target",
		"",
	}, "\n")
}

// relayUnit is a unit of the system: a user of its own that owns nothing but
// the folder of its state. A relay whose store had a fault ends, and is started again.
func (a *app) relayUnit(self string, f relayFlags) (string, error) {
	config := "/var/lib/sealbridge/" + relayConfigName
	port := ""
	if f.config != "" {
		r, err := a.readRelay(f)
		if err != nil {
			return "", err
		}
		if _, err := r.config(); err != nil {
			return "", err
		}
		if config, err = filepath.Abs(f.config); err != nil {
			return "", err
		}
		_, port, _ = net.SplitHostPort(r.Listen)
	}
	lines := []string{
		"# " + writtenBy,
		"# The relay's folder, with relay.yaml, relay.key and the store, is /var/lib/sealbridge:",
		"#   sealbridge relay init --dir /var/lib/sealbridge --url wss://relay.example.org",
		"[Unit]",
		"Description=Sealbridge relay",
		"After=network-online.target",
		"Wants=network-online.target",
		"",
		"[Service]",
		"Type=notify",
		"ExecStart=" + unitWord(self) + " relay --config " + unitWord(config),
		"ExecStop=" + unitWord(self) + " relay drain --config " + unitWord(config),
		"TimeoutStopSec=30",
		"Restart=on-failure",
		"RestartSec=1",
		"DynamicUser=yes",
		"StateDirectory=sealbridge",
		"StateDirectoryMode=0700",
		"UMask=0077",
		"LimitNOFILE=65536",
		"ProtectSystem=strict",
		"ProtectHome=yes",
		"PrivateTmp=yes",
		"PrivateDevices=yes",
		"ProtectKernelTunables=yes",
		"ProtectKernelModules=yes",
		"ProtectControlGroups=yes",
		"NoNewPrivileges=yes",
		"RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
		"RestrictNamespaces=yes",
		"LockPersonality=yes",
		"MemoryDenyWriteExecute=yes",
		"SystemCallArchitectures=native",
		"SystemCallFilter=@system-service",
	}
	if n, err := strconv.Atoi(port); err == nil && n > 0 && n < 1024 {
		lines = append(lines, "AmbientCapabilities=CAP_NET_BIND_SERVICE", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE")
	} else {
		lines = append(lines, "CapabilityBoundingSet=")
	}
	return strings.Join(append(lines, "", "[Install]", "WantedBy=multi-user.target", ""), "\n"), nil
}

// unitText keeps text in its line and percent signs as they are.
func unitText(s string) string {
	return strings.NewReplacer("%", "%%", "\n", " ", "\r", " ").Replace(s)
}

// unitWord is one word of a systemd command line.
func unitWord(s string) string {
	s = strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
	if strings.ContainsAny(s, " \t'\"\\;") {
		return `"` + s + `"`
	}
	return s
}

// launchAgent is a launchd job of the user.
func launchAgent(name, self, home string) string {
	str := func(s string) string { return "<string>" + html.EscapeString(s) + "</string>" }
	return strings.Join([]string{
		`<?xml version="1.0" encoding="UTF-8"?>`,
		`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">`,
		`<!-- ` + writtenBy + ` -->`,
		`<plist version="1.0">`,
		`<dict>`,
		`  <key>Label</key>` + str(name),
		`  <key>ProgramArguments</key><array>` + str(self) + str("--home") + str(home) + str("serve") + `</array>`,
		`  <key>RunAtLoad</key><true/>`,
		`  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>`,
		`  <key>Umask</key><integer>63</integer>`,
		`  <key>StandardErrorPath</key>` + str(filepath.Join(home, "gateway.log")),
		`</dict>`,
		`</plist>`,
		``,
	}, "\n")
}
