// Package chaos tests the chaos run itself (make chaos, package
// svc.internal/services/proving/internal/chaos): each fault that can be planted in the
// marketplace must make a short run fail: by the auditor's verdict, or, where it moves no
// money, by an intruder's success. The tests skip under -short.
package chaos
